package op

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// effectKey identifies one effect of n: it is the same for every attempt of a
// generation, and differs for any other job, generation, operation or
// arguments. part distinguishes the effects of one operation.
func effectKey(n *Node, part string) string { return effectKeyOf(n, n.Job.State.Generation, part) }

// effectKeyOf is effectKey for any generation of n's job.
func effectKeyOf(n *Node, generation int, part string) string {
	b, err := json.Marshal([]any{n.Job.ID, generation, n.Operation, part, n.Args}) // keys of maps are sorted
	if err != nil {
		panic(err) // impossible: strings and a number
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// withEffect returns message with the trailer of an effect, added to its
// paragraph of trailers or as a new last paragraph. It is the only one: an agent,
// whose text a message may be, could name the effect of another job.
func withEffect(message, key string) string {
	message = strings.TrimRight(effect.Without(message), " \t\r\n")
	paragraphs := strings.Split(message, "\n\n")
	gap := "\n\n"
	if len(paragraphs) > 1 && trailers(paragraphs[len(paragraphs)-1]) {
		gap = "\n"
	}
	return message + gap + effect.Trailer + key + "\n"
}

// trailers reports whether every line of a paragraph is a git trailer.
func trailers(paragraph string) bool {
	for line := range strings.Lines(paragraph) {
		name, _, ok := strings.Cut(line, ": ")
		if !ok || name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			return false
		}
	}
	return true
}

// clockSlack is how far the clock is assumed to have gone back, at most, since
// the job was made.
const clockSlack = 24 * time.Hour

// committed returns the commit that an earlier attempt made as the effect, if
// there is one: a commit with the effect's trailer that the branch at tip was
// once at. Who asks knows that an earlier attempt has begun the effect.
func committed(ctx context.Context, env *Env, n *Node, tip kernel.CommitID, key string) (kernel.CommitID, error) {
	if tip == "" {
		return "", nil
	}
	id, err := env.Git.Marked(ctx, tip, key, n.Job.Created.Add(-clockSlack))
	if err != nil {
		return "", fmt.Errorf("look for an earlier attempt's commit: %w", err)
	}
	return id, nil
}

// unlocked wraps an operation in a worktree: it first removes lock files of an
// earlier attempt's git that was killed. When an attempt starts, no process of
// an earlier one is left.
func unlocked(run operation) operation {
	return func(ctx context.Context, env *Env, n *Node) (Result, error) {
		if err := env.Git.DropStaleLocks(n.Dir, n.Job.State.Started); err != nil {
			return Result{}, err
		}
		return run(ctx, env, n)
	}
}

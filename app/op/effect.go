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

// effectKey identifies one effect of n: the same for every attempt of a
// generation, and for no other job, generation, operation or arguments. part
// tells the effects of one operation apart.
func effectKey(n *Node, part string) string {
	b, err := json.Marshal([]any{n.Job.ID, n.Job.State.Generation, n.Operation, part, n.Args}) // keys of maps are sorted
	if err != nil {
		panic(err) // strings and a number
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// withEffect is message with the trailer of an effect, as its last paragraph
// or in the one that holds trailers already.
func withEffect(message, key string) string {
	message = strings.TrimRight(message, " \t\r\n")
	paragraphs := strings.Split(message, "\n\n")
	gap := "\n\n"
	if len(paragraphs) > 1 && trailers(paragraphs[len(paragraphs)-1]) {
		gap = "\n"
	}
	return message + gap + effect.Trailer + key + "\n"
}

// trailers reports that every line of a paragraph is a git trailer.
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

// clockSlack is how far the clock may have gone back since the job was made.
const clockSlack = 24 * time.Hour

// committed is the commit that an effect is, if an earlier attempt made it: a
// commit that leads to tip and bears the effect's trailer.
func committed(ctx context.Context, env *Env, n *Node, tip kernel.CommitID, key string) (kernel.CommitID, error) {
	if tip == "" {
		return "", nil
	}
	id, err := env.Git.Marked(ctx, tip, effect.Trailer+key, n.Job.Created.Add(-clockSlack))
	if err != nil {
		return "", fmt.Errorf("look for an earlier attempt's commit: %w", err)
	}
	return id, nil
}

// unlocked is an operation in a worktree that an earlier attempt's git may have
// been killed in. When an attempt starts, nothing of an earlier one is left.
func unlocked(run operation) operation {
	return func(ctx context.Context, env *Env, n *Node) (Result, error) {
		if err := env.Git.DropStaleLocks(n.Dir, n.Job.State.Started); err != nil {
			return Result{}, err
		}
		return run(ctx, env, n)
	}
}

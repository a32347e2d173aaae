package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Leftover returns the paths, relative to the top of the working tree at dir, that were in conflict there and are
// staged with conflict markers. They count only if a whole conflict would be committed that neither the
// checked-out commit nor a side of the merge has: text about conflicts is none.
func (r *Repo) Leftover(ctx context.Context, dir string) ([]string, error) {
	top, err := r.linkedTop(dir)
	if err != nil {
		return nil, err
	}
	if never, err := r.neverInConflict(top); err != nil || never {
		return nil, err
	}
	out, err := r.cli.run(ctx, command{dir: dir, args: []string{"ls-files", "--resolve-undo", "--full-name", "-z", "--", ":(top)"}})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	sides := map[string][]string{} // by path: the blobs that were in conflict
	for entry := range strings.SplitSeq(string(out), "\x00") {
		about, path, _ := strings.Cut(entry, "\t")
		if f := strings.Fields(about); len(f) == 3 && f[0] != "160000" {
			sides[path] = append(sides[path], f[1])
		}
	}
	staged, paths, err := r.cli.stagedBlobs(ctx, dir, sides)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	sizes, err := r.cli.markerSizes(ctx, top, paths)
	if err != nil {
		return nil, err
	}
	now, err := r.cli.blobs(ctx, dir, staged)
	if err != nil {
		return nil, err
	}
	var left []string
	for i, path := range paths {
		found := conflictsIn(now[staged[i]], sizes[path])
		if len(found) == 0 {
			continue
		}
		before, err := r.cli.blobs(ctx, dir, sides[path])
		if err != nil {
			return nil, err
		}
		for _, text := range before {
			for _, known := range conflictsIn(text, sizes[path]) {
				found = slices.DeleteFunc(found, func(c string) bool { return c == known })
			}
		}
		if len(found) > 0 {
			left = append(left, path)
		}
	}
	return left, nil
}

// checkLeftover returns an error if files are staged at dir with conflict markers.
func (r *Repo) checkLeftover(ctx context.Context, dir string) error {
	files, err := r.Leftover(ctx, dir)
	if err != nil || len(files) == 0 {
		return err
	}
	return fmt.Errorf("%s has files that were in conflict and are staged with conflict markers: %s", dir, strings.Join(files, ", "))
}

// neverInConflict reports whether the index of the linked working tree at top, or with "" of the main
// one, has no note of resolved conflicts, an extension named REUC. Then no git is started, which is nearly always so.
func (r *Repo) neverInConflict(top string) (bool, error) {
	gitDir := r.root.CommonDir
	if top != "" {
		w, err := worktreeAt(r.root.CommonDir, top)
		if err != nil {
			return false, err
		}
		gitDir = w.gitDir
	}
	index, err := os.ReadFile(filepath.Join(gitDir, "index"))
	if errors.Is(err, iofs.ErrNotExist) {
		return true, nil
	}
	return !bytes.Contains(index, []byte("REUC")), err
}

// stagedBlobs returns the blobs of those files of sides that are staged with a change, and their paths, in the
// same order. It adds to sides the blobs that they replace.
func (c *cli) stagedBlobs(ctx context.Context, dir string, sides map[string][]string) (blobs, paths []string, err error) {
	out, err := c.run(ctx, command{dir: dir, args: []string{"diff", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--ignore-submodules=all"}})
	entries := strings.Split(string(out), "\x00") // each file's change, then its name
	for i := 0; i+1 < len(entries); i += 2 {
		f, path := strings.Fields(entries[i]), entries[i+1]
		if len(f) < 5 || sides[path] == nil || !strings.HasPrefix(f[1], "100") { // a file, not a link or a removal
			continue
		}
		if f[0] != ":000000" {
			sides[path] = append(sides[path], f[2])
		}
		blobs, paths = append(blobs, f[3]), append(paths, path)
	}
	return blobs, paths, err
}

// defaultMarkerSize is the length of conflict markers without the attribute conflict-marker-size.
const defaultMarkerSize = 7

// markerSizes returns how long the conflict markers of each path are, in the linked working tree at top or, with "",
// in the main one.
func (c *cli) markerSizes(ctx context.Context, top string, paths []string) (map[string]int, error) {
	out, err := c.run(ctx, command{dir: top, args: []string{"check-attr", "--stdin", "-z", "conflict-marker-size"}, stdin: []byte(strings.Join(paths, "\x00") + "\x00")})
	sizes := map[string]int{}
	f := strings.Split(string(out), "\x00") // path, attribute, value
	for i := 0; i+2 < len(f); i += 3 {
		if sizes[f[i]], _ = strconv.Atoi(f[i+2]); sizes[f[i]] <= 0 {
			sizes[f[i]] = defaultMarkerSize
		}
	}
	return sizes, err
}

// blobs returns the contents of blobs by their ids.
func (c *cli) blobs(ctx context.Context, dir string, ids []string) (map[string][]byte, error) {
	out, err := c.run(ctx, command{dir: dir, args: []string{"cat-file", "--batch"}, stdin: []byte(strings.Join(ids, "\n") + "\n")})
	all := map[string][]byte{}
	for err == nil && len(out) > 0 {
		header, rest, _ := bytes.Cut(out, []byte("\n"))
		out = rest
		f := strings.Fields(string(header))
		if len(f) != 3 { // it is missing
			continue
		}
		size, bad := strconv.Atoi(f[2])
		if bad != nil || size >= len(rest) {
			return nil, fmt.Errorf("git cat-file: unexpected answer %q", header)
		}
		all[f[0]], out = rest[:size], rest[size+1:]
	}
	return all, err
}

// conflictsIn returns the conflicts in a text, with their markers, as git writes them: lines that begin with size
// characters <, then =, then >.
func conflictsIn(text []byte, size int) []string {
	var found []string
	next := byte('<')
	var begin, at int
	for line := range bytes.Lines(text) {
		switch {
		case !isMarker(line, next, size):
		case next == '<':
			next, begin = '=', at
		case next == '=':
			next = '>'
		default:
			next = '<'
			found = append(found, string(text[begin:at+len(line)]))
		}
		at += len(line)
	}
	return found
}

// isMarker reports whether a line begins with a conflict marker of a character, by the rule of git diff --check.
func isMarker(line []byte, of byte, size int) bool {
	rest := bytes.TrimLeft(line, string(of))
	return len(line)-len(rest) == size && (len(rest) == 0 || bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0])))
}

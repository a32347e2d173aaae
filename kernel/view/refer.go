package view

import (
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

const idLength = 32

// Refer returns s with the ids of jobs and runs replaced by what of returns for
// them. An id for which of returns "" stays.
func Refer(s string, of func(id string) string) string {
	places := idsIn(s)
	if len(places) == 0 {
		return s
	}
	var b strings.Builder
	at := 0
	for _, p := range places {
		if ref := of(s[p[0]:p[1]]); ref != "" {
			b.WriteString(s[at:p[0]])
			b.WriteString(ref)
			at = p[1]
		}
	}
	b.WriteString(s[at:])
	return b.String()
}

// People returns text with the references of s in place of the ids of jobs and
// runs.
func People(s *kernel.Snapshot, text string) string {
	return Refer(text, func(id string) string {
		if j := s.Job(kernel.JobID(id)); j != nil {
			return j.Ref()
		}
		if jobs := s.Members(kernel.RunID(id)); len(jobs) > 0 && jobs[0].Number > 0 {
			return jobs[0].Number.String()
		}
		return ""
	})
}

// IDs returns everything in s that may be the id of a job or a run.
func IDs(s string) (ids []string) {
	for _, p := range idsIn(s) {
		ids = append(ids, s[p[0]:p[1]])
	}
	return ids
}

// idsIn returns the positions in s of possible ids of jobs and runs, without
// those that are part of a path, a name or an artifact, and without those in quotes: what a
// file says stays as it is there.
func idsIn(s string) (places [][2]int) {
	for i := 0; i < len(s); {
		if !isHex(s[i]) {
			i++
			continue
		}
		from, to := i, i
		for to < len(s) && isHex(s[to]) {
			to++
		}
		i = to
		if to-from != idLength {
			continue
		}
		run := strings.HasSuffix(s[:from], "run_")
		if run {
			from -= len("run_")
		}
		if from > 0 && joins(s[from-1]) {
			continue
		}
		if from > 0 && s[from-1] == '"' && strings.HasPrefix(s[to:], `"`) {
			continue
		}
		if rest := s[to:]; rest == "" || rest[0] == '/' && run || !joins(rest[0]) || strings.IndexByte(".:", rest[0]) >= 0 && (len(rest) == 1 || rest[1] == ' ' || rest[1] == '\n') {
			places = append(places, [2]int{from, to})
		}
	}
	return places
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// joins reports whether c connects an id to the text beside it, so that the id
// is part of a longer word.
func joins(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("_-./:=@~", c) >= 0
}

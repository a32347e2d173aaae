package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 4 << 20

// Live is the configuration in force: what the files say now or, where that makes
// no sense, what they said before. It is for one goroutine.
type Live struct {
	src     Sources
	kept    string    // see keep; "": nowhere
	texts   []written // of the files, as they were read last
	good    []written // as they last made sense
	at      time.Time
	c       Config
	changes int
	bad     error
}

// written is what a configuration file says.
type written struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Own  bool   `json:"own,omitempty"` // it is the user's own
}

// kept is what processes that run leave to those that they start while the files
// make no sense.
type kept struct {
	Bad   string    `json:"bad"` // SHA-256 of the files that make none
	Read  time.Time `json:"read"`
	Files []written `json:"files"` // as they made sense
}

// Open is the configuration of src. What is wrong with it is told by an *Error
// with every finding, unless a file cannot be read. While the files make
// no sense later on, what they said before is in the file named by keep; "": it is
// in this process only.
func Open(src Sources, keep string) (*Live, error) {
	l := &Live{src: src, kept: keep, at: time.Now()}
	var err error
	if l.texts, err = src.read(); err != nil {
		return nil, err
	}
	if l.c, err = parse(src, l.texts); err != nil {
		return nil, err
	}
	l.good = l.texts
	return l, nil
}

// Inherit is Open for a process that another one started: where the files make no
// sense, what that one goes by counts.
func Inherit(src Sources, keep string) (*Live, error) {
	l, err := Open(src, keep)
	if err == nil {
		return l, nil
	}
	l = &Live{src: src, kept: keep, bad: err}
	l.texts, _ = src.read()
	if !l.adopt() {
		return nil, err
	}
	return l, nil
}

// Config is the configuration as of the last Refresh.
func (l *Live) Config() Config { return l.c }

// Changes is how often it has changed.
func (l *Live) Changes() int { return l.changes }

// Refresh reads the files, and makes sense of them where they are not as they
// were. It reports that the configuration is another.
func (l *Live) Refresh() (changed bool) {
	before := l.changes
	texts, err := l.src.read()
	switch {
	case err == nil && l.bad == nil && slices.Equal(texts, l.texts):
		return false
	case err == nil && l.bad != nil && slices.Equal(texts, l.good): // it was taken back
		l.mended()
	case err == nil:
		var c Config
		if c, err = parse(l.src, texts); err == nil {
			l.c, l.good, l.at = c, texts, time.Now()
			l.changes++
			l.mended()
		}
	}
	if l.texts = texts; err != nil {
		l.bad = err
		if !l.adopt() {
			l.keep()
		}
	}
	return l.changes > before
}

func (l *Live) mended() {
	if l.bad != nil && l.kept != "" {
		_ = os.Remove(l.kept) // it says itself what it is about
	}
	l.bad = nil
}

// adopt takes over what was kept about the files as they are, if it is not older
// than what this process has, and reports whether there is such a thing.
func (l *Live) adopt() bool {
	b, err := sys.ReadRegular(l.kept, maxFile)
	if err != nil {
		return false
	}
	var k kept
	if json.Unmarshal(b, &k) != nil || k.Bad != digest(l.texts) || k.Read.Before(l.at) {
		return false
	}
	if !l.at.IsZero() && slices.Equal(k.Files, l.good) {
		return true
	}
	c, err := parse(l.src, k.Files)
	if err != nil {
		return false
	}
	l.c, l.good, l.at = c, k.Files, k.Read
	l.changes++
	return true
}

// keep leaves what this process goes by to those that it starts. Where it cannot,
// they refuse, and are started again once the files make sense.
func (l *Live) keep() {
	if l.kept == "" {
		return
	}
	b, err := json.Marshal(kept{digest(l.texts), l.at, l.good})
	if err != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(l.kept), "."+filepath.Base(l.kept)+".*.tmp") // 0600: a configuration may hold secrets
	if err != nil {
		return
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), l.kept)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

func digest(texts []written) string {
	var b bytes.Buffer
	for _, t := range texts {
		fmt.Fprintf(&b, "%q %q\n", t.Name, t.Text)
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}

// read reads the files that there are.
func (src Sources) read() ([]written, error) {
	var out []written
	for _, f := range src.files() {
		data, err := sys.ReadLinked(f.path, maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !f.required:
			continue
		case err != nil:
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		out = append(out, written{f.show, string(data), f.own})
	}
	return out, nil
}

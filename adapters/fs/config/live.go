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
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 4 << 20

// Live is the configuration in force: what the files say now or, while they are
// invalid, what they said when they were last valid. It is for one goroutine.
type Live struct {
	src          Sources
	handoverFile string    // path of the file that writeHandover writes; "": none
	texts        []content // the files as last read
	good         []content // the files as last valid
	at           time.Time
	c            Config
	changes      int
	bad          error
}

// content is the content of a configuration file.
type content struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Own  bool   `json:"own,omitempty"` // it is the user's own file
}

// handover is the configuration that a process hands to the processes that it
// starts while the files are invalid.
type handover struct {
	Bad   string    `json:"bad"` // SHA-256 of the invalid files
	Read  time.Time `json:"read"`
	Files []content `json:"files"` // the files as last valid
}

// Open reads the configuration of src. If it is invalid, the error is an *Error
// with all findings; if a file cannot be read, it is another error. keep is the
// path of the file that hands the last valid configuration to the processes
// which this one starts, while the files are invalid; "" means no file.
func Open(src Sources, keep string) (*Live, error) {
	l := &Live{src: src, handoverFile: keep, at: time.Now()}
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

// Inherit is Open for a process that another one started: if the files are
// invalid, it uses the configuration that the starter handed on.
func Inherit(src Sources, keep string) (*Live, error) {
	l, err := Open(src, keep)
	if err == nil {
		return l, nil
	}
	l = &Live{src: src, handoverFile: keep, bad: err}
	l.texts, _ = src.read()
	if !l.adopt() {
		return nil, err
	}
	return l, nil
}

// Config returns the configuration as of the last Refresh.
func (l *Live) Config() Config { return l.c }

// Files returns the paths of the files that it reads, whether they exist or not.
func (l *Live) Files() []string {
	var out []string
	for _, f := range l.src.files() {
		out = append(out, f.path)
	}
	return out
}

// Changes returns how often the configuration has changed.
func (l *Live) Changes() int { return l.changes }

// Refresh reads the files, and parses them if they have changed. It reports
// whether the configuration in force changed.
func (l *Live) Refresh() (changed bool) {
	before := l.changes
	texts, err := l.src.read()
	switch {
	case err == nil && l.bad == nil && slices.Equal(texts, l.texts):
		return false
	case err == nil && l.bad != nil && slices.Equal(texts, l.good): // the last change was undone
		l.recovered()
	case err == nil:
		var c Config
		if c, err = parse(l.src, texts); err == nil {
			l.c, l.good, l.at = c, texts, time.Now()
			l.changes++
			l.recovered()
		}
	}
	if l.texts = texts; err != nil {
		l.bad = err
		if !l.adopt() {
			l.writeHandover()
		}
	}
	return l.changes > before
}

func (l *Live) recovered() {
	if l.bad != nil && l.handoverFile != "" {
		_ = os.Remove(l.handoverFile) // a leftover does no harm: it holds the digest of the files that it is about
	}
	l.bad = nil
}

// adopt uses the configuration that was kept for the present files, unless it
// is older than that of this process. It reports whether there is one.
func (l *Live) adopt() bool {
	b, err := sys.ReadRegular(l.handoverFile, maxFile)
	if err != nil {
		return false
	}
	var k handover
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

// writeHandover writes the configuration that this process uses for the
// processes that it starts. If it cannot, they fail, and are started again once
// the files are valid.
func (l *Live) writeHandover() {
	if l.handoverFile == "" {
		return
	}
	b, err := json.Marshal(handover{digest(l.texts), l.at, l.good})
	if err != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(l.handoverFile), "."+filepath.Base(l.handoverFile)+".*.tmp") // 0600: a configuration may hold secrets
	if err != nil {
		return
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), l.handoverFile)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

func digest(texts []content) string {
	var b bytes.Buffer
	for _, t := range texts {
		fmt.Fprintf(&b, "%q %q\n", t.Name, t.Text)
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}

// UnreadableError says that a configuration file is there, or was asked for by its path, and cannot be
// read. What it says must not be taken for the defaults.
type UnreadableError struct {
	Path  string
	Err   error
	Asked bool // it is Sources.File
}

func (e *UnreadableError) Error() string { return "read configuration: " + e.Err.Error() }
func (e *UnreadableError) Unwrap() error { return e.Err }

// Next returns what to do about it.
func (e *UnreadableError) Next() string {
	if e.Asked {
		return "name a file that you can read, or leave out -C: then the files of the user and of the repository apply"
	}
	if _, err := os.Lstat(e.Path); errors.Is(err, fs.ErrPermission) {
		return "make " + filepath.Dir(e.Path) + " a directory that you can read (chmod u+rwx)"
	}
	for dir := filepath.Dir(e.Path); errors.Is(e.Err, syscall.ENOTDIR) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return dir + " is a file, but Vizier needs a directory there: move it away"
		}
	}
	return "make " + e.Path + " a file that you can read, or move it away: then the defaults apply"
}

// read reads the files that exist. A link that leads nowhere exists.
func (src Sources) read() ([]content, error) {
	var out []content
	for _, f := range src.files() {
		data, err := sys.ReadLinked(f.path, maxFile)
		switch {
		case err != nil && f.required:
			return nil, &UnreadableError{f.path, err, true}
		case errors.Is(err, fs.ErrNotExist):
			if at, bad := os.Readlink(f.path); bad == nil {
				return nil, &UnreadableError{f.path, fmt.Errorf("%s is a symbolic link to %s, which does not exist", f.path, at), false}
			}
			continue
		case err != nil:
			return nil, &UnreadableError{f.path, err, false}
		}
		out = append(out, content{f.show, string(data), f.own})
	}
	return out, nil
}

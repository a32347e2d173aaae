package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// NoteLost notes that the runner of a was lost: nothing holds what its command left behind, and
// whatever was adopted since the runner began may be that. The note does not depend on what becomes
// of the job, so it is made before it is on record that the attempt is over. It counts until that
// host's next boot.
func (l *Local) NoteLost(a kernel.AttemptID) error {
	c, ours, err := l.claimOf(a)
	if err != nil || !ours || c.Start == 0 {
		return nil // no command starts before its claim
	}
	noted, err := l.lost()
	if err != nil {
		return fmt.Errorf("note that the runner of %s was lost: %w", label(a), err)
	}
	if first, some := noted[c.Boot]; some && first <= c.Start {
		return nil
	}
	f, err := sys.OpenRegular(l.Files.LostFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %d\n", c.Boot, c.Start)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("note that the runner of %s was lost: %w", label(a), err)
	}
	return nil
}

// lost returns when the first runner that was lost began, for each boot in which one was.
func (l *Local) lost() (map[string]uint64, error) {
	const limit = 16 << 20
	b, err := sys.ReadRegular(l.Files.LostFile(), limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	first := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		var boot string
		var start uint64
		if _, err := fmt.Sscan(line, &boot, &start); err != nil { // its write was cut off, with its boot
			continue
		}
		if at, some := first[boot]; !some || start < at {
			first[boot] = start
		}
	}
	return first, err
}

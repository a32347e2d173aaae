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

// NoteLost notes that the runner of a was lost. Nothing keeps track of the processes that its command
// left: any process that was adopted since the runner began may be one of them. The note is made
// before the end of the attempt is on record, and stays whatever becomes of the job. It counts until
// that host's next boot.
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

// lost returns, for each boot with lost runners, when the first of them began.
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
		if _, err := fmt.Sscan(line, &boot, &start); err != nil { // the end of its boot cut the write off
			continue
		}
		if at, some := first[boot]; !some || start < at {
			first[boot] = start
		}
	}
	return first, err
}

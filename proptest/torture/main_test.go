// Package torture runs the real program in real repositories and disturbs it:
// processes are killed and stopped at random moments, records are damaged, disks are
// full, clocks step back. Every test checks how the jobs end.
package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// The programs under test. They are in two directories: if vizier-runner is beside
// vizier, it is started as runner, and otherwise vizier itself.
var (
	plainBin string // vizier alone
	pairBin  string // vizier and vizier-runner
)

// TestMain builds the program once. The test binary is also the command of the
// jobs: started with workWord it does a job's work.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workWord {
		os.Exit(work(os.Args[2:]))
	}
	if runtime.GOOS != "linux" {
		fmt.Println("skipped: these tests read /proc")
		return
	}
	dir, err := os.MkdirTemp("", "vizier-torture-")
	if err == nil {
		err = buildPrograms(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func buildPrograms(dir string) error {
	plainBin, pairBin = filepath.Join(dir, "plain", "vizier"), filepath.Join(dir, "pair", "vizier")
	for _, to := range []string{plainBin, pairBin} {
		if err := os.Mkdir(filepath.Dir(to), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // other users run the program too
		return err
	}
	build := exec.Command("go", "build", "-o", plainBin, "github.com/vizier-scheduler/vizier/cmd/vizier")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build vizier: %w\n%s", err, out)
	}
	for _, to := range []string{pairBin, filepath.Join(filepath.Dir(pairBin), "vizier-runner")} {
		if err := os.Link(plainBin, to); err != nil {
			return err
		}
	}
	return nil
}

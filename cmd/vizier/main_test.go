package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// detector says that this binary has the race detector. VIZIER_LONG asks for
// the long form of the tests: the program under test has it too.
var (
	detector = false
	long     = os.Getenv("VIZIER_LONG") != ""
)

// TestMain makes the test binary the program `vizier` of scripts as well.
func TestMain(m *testing.M) { testscript.Main(suite{m}, map[string]func(){"vizier": main}) }

type suite struct{ *testing.M }

// Run runs the tests, for which testscript has put the program on PATH.
func (s suite) Run() int {
	dir, err := os.MkdirTemp("", "vizier-races-")
	if err == nil && detector && !long {
		err = buildPlainly()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// What a program with the detector finds is read in the end: nobody reads the
	// errors of runners. Without the first word each would sleep a second at its exit.
	os.Setenv("GORACE", "atexit_sleep_ms=0 log_path="+filepath.Join(dir, "race"))
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // scripts wait most of the time
	code := s.M.Run()
	races, _ := filepath.Glob(filepath.Join(dir, "race.*"))
	for _, file := range races {
		text, _ := os.ReadFile(file)
		fmt.Printf("%s\n--- FAIL: a race in the program under test\n", text)
		code = 1
	}
	return code
}

// buildPlainly replaces the program under test by one without the detector,
// which starts in a tenth of the time.
func buildPlainly() error {
	program, err := exec.LookPath("vizier")
	if err == nil {
		err = os.Remove(program)
	}
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build vizier: %w\n%s", err, out)
	}
	return nil
}

// Package promtest checks metrics with Prometheus's own tool, in tests.
package promtest

import (
	"os/exec"
	"strings"
	"testing"
)

// Check checks metrics with promtool, if it is installed.
func Check(t *testing.T, metrics string) {
	t.Run("promtool", func(t *testing.T) {
		program, err := exec.LookPath("promtool")
		if err != nil {
			t.Skip("needs promtool, of Debian's package prometheus: ", err)
		}
		cmd := exec.Command(program, "check", "metrics")
		cmd.Stdin = strings.NewReader(metrics)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	})
}

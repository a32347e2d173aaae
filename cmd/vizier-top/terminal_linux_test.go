package main

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A terminal that takes no output, as after Ctrl-S, does not keep the program: a signal ends it,
// and the terminal has its settings back.
func TestATerminalThatTakesNothing(t *testing.T) {
	x := newTerminal(t)
	x.run("vizier", "submit", "--name", "deploy", "--approval", "--", "true")
	x.tmux("new-session", "-d", "-x", "80", "-y", "12", "sh -c 'echo $$ >top; exec vizier top'; sleep 60")
	x.until("1 needs you")
	tty, err := os.OpenFile(strings.TrimSpace(x.tmux("display-message", "-p", "#{pane_tty}")), os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	const tcooff = 0 // see tcflow(3)
	if err := unix.IoctlSetInt(int(tty.Fd()), unix.TCXONC, tcooff); err != nil {
		t.Fatal(err)
	}
	x.run("sh", "-c", `kill "$(cat top)"`)
	x.gone("top")
	if is, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); err != nil || is.Lflag&unix.ICANON == 0 || is.Lflag&unix.ECHO == 0 {
		t.Errorf("the terminal is left with %+v, %v", is, err)
	}
}

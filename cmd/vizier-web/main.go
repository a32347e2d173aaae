// Command vizier-web serves the page of `vizier web` and of `vizier jobs
// schedule --format html`. It is a program of its own because of its size: it
// contains the kernel a second time, for browsers.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/answer"
)

func main() {
	if code, ok := vizier.Serve(os.Args[1:], os.Stdout, os.Stderr, os.Environ()); ok {
		os.Exit(code)
	}
	if err := run(built, os.Args[1:], os.Environ(), os.Stdin, os.Stdout); err != nil {
		os.Stderr.WriteString(answer.Message(err.Error()))
		os.Exit(exitCode(err))
	}
}

// classed is an error with an exit code of its own.
type classed struct {
	error
	exit int
}

// The functions below return the errors of wrong usage and of a guard.
func usage(format string, args ...any) error   { return &classed{fmt.Errorf(format, args...), 2} }
func refused(format string, args ...any) error { return &classed{fmt.Errorf(format, args...), 10} }

// exitCode returns the exit code of an error, as docs/user/jobs.md lists them.
func exitCode(err error) int {
	if own, ok := errors.AsType[*classed](err); ok {
		return own.exit
	}
	if _, inside := errors.AsType[*app.InsideError](err); inside {
		return 10
	}
	return 1
}

// run serves the repository that contains the working directory until a signal
// ends it, or writes the page to a file once; built returns the files of the page.
// The command line has checked the arguments.
func run(built func() (assets, error), args, environ []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("vizier-web", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	file := flags.String("config-file", "", "")
	listen := flags.String("listen", "127.0.0.1:0", "")
	open := flags.Bool("open", false, "")
	metrics := flags.Bool("metrics", false, "")
	act := flags.Bool("actions", false, "")
	html := flags.Bool("html", false, "")
	job := flags.String("job", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(out, "vizier-web is what `vizier web` becomes: see `vizier web --help`.")
		return nil
	case err != nil:
		return err
	}
	a, err := built()
	if err != nil {
		return err
	}
	r, err := vizier.Open(".", vizier.Options{Environ: environ, ConfigFile: *file, NoResident: !*act, Program: vizier.Beside()})
	if err != nil {
		return err
	}
	ctx := context.Background() // no signal is handled until all is written: nobody may be reading it
	if *html {
		text, err := standalone(ctx, r, a, *job)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	if *act {
		if err := mayAct(ctx, r, in, out, *open); err != nil {
			return err
		}
	}
	l, err := loopback(*listen)
	if err != nil {
		return err
	}
	s := newServer(r, a)
	address := "http://" + l.Addr().String() + s.prefix
	also := ""
	if *metrics {
		s.open()
		also = fmt.Sprintf("Metrics are at http://%s/metrics, for everybody on this machine.\n", l.Addr())
	}
	shown, rights := address, "Anyone who has this address can read it."
	if *act {
		s.allow(vizier.Environment(environ).Who)
		shown, rights = address+s.actions.offer(), "The first to open this address can decide there, and needs another after a reload: press enter to print one."
	}
	if _, err := fmt.Fprintf(out, "%sThe page of %s is at\n%s\n%s Ctrl-C ends it.\n", also, answer.Visible(filepath.Base(r.Root), ""), shown, rights); err != nil {
		return fmt.Errorf("print the address of the page: %w", err)
	}
	if *act {
		go func() {
			for lines := bufio.NewScanner(in); lines.Scan(); {
				fmt.Fprintln(out, address+s.actions.offer())
			}
		}()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if *open {
		leave, err := browse(address)
		if err != nil {
			os.Stderr.WriteString(answer.Message("open the address by hand: " + err.Error()))
		}
		defer leave()
	}
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	defer context.AfterFunc(ctx, func() { _ = web.Close() })()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

// mayAct returns an error if pages must not make decisions here, or if a job
// could learn the key.
func mayAct(ctx context.Context, r *vizier.Repository, in io.Reader, out io.Writer, open bool) error {
	for _, f := range []any{in, out} {
		if f, ok := f.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
			return refused("--actions needs a terminal: jobs can read output that goes elsewhere, such as the key of the page")
		}
	}
	if open {
		return usage("--actions excludes --open: the program that opens the browser would show jobs the address; open it by hand")
	}
	if where, inside := r.Scheduler.Inside(ctx); inside {
		return &app.InsideError{Verb: "take actions", Descent: where}
	}
	return guard()
}

// loopback listens on an address that only this machine can reach.
func loopback(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return nil, usage("--listen %s: name an address and a port, such as 127.0.0.1:8080", address)
	}
	if !local(host) {
		return nil, usage("--listen %s: the page is for this machine only: name 127.0.0.1, [::1] or localhost, and from elsewhere use `ssh -L`", address)
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--listen %s: another program has this port: name another one, or 0 for any free one", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("--listen %s: you may not use this port: name one from 1024 on, or 0 for any free one", address)
	case err != nil:
		return nil, fmt.Errorf("--listen %s: %w", address, err)
	}
	return l, nil
}

// local reports whether a host name means this machine without asking a name
// server.
func local(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// browse opens an address in the user's browser. It passes the address in a
// file that only the user can read, because everybody can see the arguments of
// a process. leave removes the file.
func browse(address string) (leave func(), err error) {
	leave = func() {}
	f, err := os.CreateTemp("", "vizier-*.html")
	if err != nil {
		return leave, err
	}
	leave = func() { _ = os.Remove(f.Name()) }
	_, err = fmt.Fprintf(f, "<!doctype html><meta http-equiv=refresh content=\"0;url=%s\"><a href=\"%s\">Vizier</a>\n", address, address)
	if err = errors.Join(err, f.Close()); err != nil {
		return leave, err
	}
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	cmd := exec.Command(opener, f.Name())
	if err := cmd.Start(); err != nil {
		return leave, err
	}
	go func() { _ = cmd.Wait() }()
	return leave, nil
}

package sandbox

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The Landlock versions since which these can be restricted: moves between
// directories, all other operations that change files, TCP, and signals with
// abstract sockets.
const (
	withMoves   = 2
	withFiles   = 3
	withTCP     = 4
	withSignals = 6
)

// signalsHold is the erratum that fixes the scoping of signals.
const signalsHold = 0x2

// Host is what this host can enforce.
type Host struct {
	ABI    int    // of Landlock; 0: there is none
	Limits string // why the limits of other processes cannot be kept from a command; "": they can
}

// This returns what this host can enforce.
var This = sync.OnceValue(func() Host {
	abi, err := ll.LandlockGetABIVersion()
	errata, unknown := ll.LandlockGetErrata()
	return Host{abiOf(abi, err, errata, unknown), limitsLack()}
})

// abiOf returns the version of a Landlock that tells its version and errata, or why it does not tell them, as
// far as it holds what it promises.
func abiOf(abi int, none error, errata int, unknown error) int {
	switch {
	case none != nil:
		return 0
	case abi >= withSignals && (unknown != nil || errata&signalsHold == 0):
		return withSignals - 1
	}
	return abi
}

// canIsolateNetwork reports whether a process can be started in a network
// namespace of its own, by starting one.
var canIsolateNetwork = sync.OnceValue(func() bool {
	exe, err := os.Executable()
	if err != nil {
		return false
	}
	attr := &syscall.SysProcAttr{}
	isolateNetwork(attr)
	p, err := os.StartProcess(exe, []string{"vizier", Entry}, &os.ProcAttr{Env: []string{}, Sys: attr})
	if err != nil {
		return false
	}
	_, err = p.Wait() // it has ended with an error, because it got no policy
	return err == nil
})

// Enforcement returns h in the form that gates use.
func (h Host) Enforcement() kernel.Enforcement {
	e := kernel.Enforcement{Files: h.lacks()}
	if !canIsolateNetwork() {
		e.Network = noNamespace
	}
	return e
}

const noNamespace = "this host lets nobody make a network namespace, and Landlock stops TCP alone"

// lacks returns why restrictions on files, signals and limits cannot be enforced
// completely, or "".
func (h Host) lacks() string {
	switch {
	case h.ABI == 0:
		return "this host's kernel has no Landlock, or it is switched off"
	case h.ABI < withSignals:
		return fmt.Sprintf("this host's kernel has Landlock %d, and it takes %d", h.ABI, withSignals)
	default:
		return h.Limits
	}
}

// words describes what h enforces, without the network.
func (h Host) words() string {
	if h.Limits != "" {
		return h.files() + "; limits of other processes are open"
	}
	return h.files() + ", limits of other processes (seccomp)"
}

func (h Host) files() string {
	switch {
	case h.ABI == 0:
		return "no files: no Landlock"
	case h.ABI < withMoves:
		return "no files: Landlock 1 would stop moves within the working tree"
	case h.ABI < withFiles:
		return fmt.Sprintf("files, but for cutting them off (Landlock %d)", h.ABI)
	case h.ABI < withSignals:
		return fmt.Sprintf("files (Landlock %d)", h.ABI)
	default:
		return fmt.Sprintf("files, signals, abstract sockets (Landlock %d)", h.ABI)
	}
}

func (h Host) network() string { return h.offline(canIsolateNetwork()) }

// offline describes what h enforces of a command without a network. isolates says that it can be started in a namespace.
func (h Host) offline(isolates bool) string {
	switch {
	case isolates:
		return "no network (namespace)"
	case h.ABI >= withTCP:
		return "no TCP (Landlock); other protocols are open"
	default:
		return "the network is open"
	}
}

// prepare makes a command without network access start in a namespace of its
// own, if possible.
func (p *Policy) prepare(attr *syscall.SysProcAttr) {
	if p.Offline && canIsolateNetwork() {
		p.Apart = true
		isolateNetwork(attr)
	}
}

// isolateNetwork makes a process start in a network namespace of its own.
// Without root that takes a user namespace, in which the process keeps its ids.
// The capability is for the step, which drops it.
func isolateNetwork(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= syscall.CLONE_NEWNET
	if os.Geteuid() == 0 {
		return
	}
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
}

// devices are the device files that programs commonly write to.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// The access rights for changing files. Reading is not restricted.
const (
	changesFile = ll.AccessFSWriteFile | ll.AccessFSTruncate
	changesDir  = changesFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock |
		ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer
	changes = changesDir | ll.AccessFSMakeChar | ll.AccessFSMakeBlock
)

// enforce restricts this thread, which becomes the command, and the files of all others.
func (p Policy) enforce() error {
	runtime.LockOSThread() // the ambient capabilities and the filter of system calls belong to this thread
	if p.Apart {
		if err := loopback(); err != nil && p.Required {
			return fmt.Errorf("bring up the loopback interface: %w", err)
		}
		_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err := p.refused(This()); err != nil {
		return err
	}
	files, dirs, err := p.paths()
	if err != nil {
		return err
	}
	args := []any{landlock.AccessFSSet(changes), landlock.ScopedSet(ll.ScopeAbstractUnixSocket | ll.ScopeSignal)}
	if p.Offline && !p.Apart {
		args = append(args, landlock.AccessNetSet(ll.AccessNetBindTCP|ll.AccessNetConnectTCP))
	}
	limits := landlock.MustConfig(args...)
	if !p.Required {
		limits = limits.BestEffort()
	}
	if err := limits.Restrict(
		landlock.PathAccess(changesDir, dirs...).IgnoreIfMissing(),
		landlock.PathAccess(changesFile, files...).IgnoreIfMissing(),
		landlock.PathAccess(changesFile, devices...).IgnoreIfMissing()); err != nil {
		return err
	}
	if err := keepLimits(); err != nil && p.Required {
		return err
	}
	return nil
}

// paths returns the files and directories to open for writing: those in Write
// or, for a directory with something guarded below it, its entries without
// anything guarded. They are open already, and named by their descriptors, so
// that no link is followed that another command puts in their place.
func (p Policy) paths() (files, dirs []string, err error) {
	for _, path := range p.Write {
		fd, err := openWithoutLinks(path)
		if err == nil {
			err = p.open(fd, path, &files, &dirs)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return files, dirs, nil
}

const withoutLinks = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

// errLink is the error for a path with a link in it.
var errLink = errors.New("a link was put there meanwhile")

// openWithoutLinks opens path, an absolute one, as what it names, and fails if there is a link in it.
func openWithoutLinks(path string) (int, error) {
	at, err := unix.Open("/", withoutLinks, 0)
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || err != nil {
			continue
		}
		var next int
		next, err = unix.Openat(at, name, withoutLinks, 0)
		_ = unix.Close(at)
		at = next
		if err == nil && typeOf(at) == unix.S_IFLNK {
			_ = unix.Close(at)
			err = errLink
		}
	}
	return at, err
}

// typeOf returns the type of an open file, 0 if it is not known.
func typeOf(fd int) uint32 {
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st) // of what is open it fails for want of memory alone
	return st.Mode & unix.S_IFMT
}

// open adds fd, which is open at path, to files or dirs. Links are not followed, since Write does
// not name their targets.
func (p Policy) open(fd int, path string, files, dirs *[]string) error {
	name := fmt.Sprintf("/proc/self/fd/%d", fd)
	switch kind := typeOf(fd); {
	case kind == unix.S_IFLNK, slices.Contains(p.Guarded, path):
		return unix.Close(fd)
	case kind != unix.S_IFDIR:
		*files = append(*files, name)
		return nil
	}
	if !slices.ContainsFunc(p.Guarded, func(g string) bool { return Beneath(g, path) }) {
		*dirs = append(*dirs, name)
		return nil
	}
	defer unix.Close(fd)
	entries, err := os.ReadDir(name)
	if errors.Is(err, iofs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		sub, err := unix.Openat(fd, e.Name(), withoutLinks, 0)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			err = p.open(sub, filepath.Join(path, e.Name()), files, dirs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refused returns why h cannot enforce p where p requires that.
func (p Policy) refused(h Host) error {
	switch lacks := h.lacks(); {
	case p.Required && lacks != "":
		return errors.New(lacks)
	case p.Required && p.Offline && !p.Apart:
		return errors.New(noNamespace)
	}
	return nil
}

// loopback brings up the loopback interface, which is down in a new network
// namespace.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, _ := unix.NewIfreq("lo") // only a name that is too long fails
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(ifr))); no != 0 {
		return no
	}
	return nil
}

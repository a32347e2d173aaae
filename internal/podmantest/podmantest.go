// Package podmantest provides tests with a real podman, if there is one.
package podmantest

import (
	"archive/tar"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Image is an image with a shell, in the test's own store.
const Image = "localhost/vizier-test"

// Setup sets up a podman with that image for programs in the environment that
// setenv changes, such as t.Setenv, and skips the test if none works. It does
// not access a registry.
func Setup(t *testing.T, setenv func(name, value string)) {
	busybox, err := exec.LookPath("busybox")
	if _, none := exec.LookPath("podman"); err != nil || none != nil {
		t.Skip("needs podman, and busybox linked statically: apt-get install podman busybox-static")
	}
	dir, err := os.MkdirTemp("", "p") // with a long path, podman waits for a socket whose name is too long
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.WriteFile(dir+"/storage.conf", fmt.Appendf(nil, "[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", dir+"/graph", dir+"/run"), 0o600))
	setenv("CONTAINERS_STORAGE_CONF", dir+"/storage.conf")
	must(t, os.WriteFile(dir+"/image.tar", imageOf(t, busybox), 0o600))
	var said []byte
	// The second configuration is for hosts whose limits, or control groups, do
	// not work with the default.
	for _, conf := range []string{"", "[engine]\nruntime = \"runc\"\n[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n"} {
		must(t, os.WriteFile(dir+"/containers.conf", []byte(conf), 0o600))
		setenv("CONTAINERS_CONF", dir+"/containers.conf")
		if said, err = exec.Command("podman", "import", dir+"/image.tar", Image).CombinedOutput(); err != nil {
			continue
		}
		if said, err = exec.Command("podman", "run", "--rm", "--network=host", "--pid=host", Image, "true").CombinedOutput(); err == nil {
			t.Cleanup(func() { _ = exec.Command("podman", "rm", "--all", "--force", "--time=0").Run() })
			return
		}
	}
	t.Skipf("podman runs no container here: %s", said)
}

func imageOf(t *testing.T, busybox string) []byte {
	b, err := os.ReadFile(busybox)
	must(t, err)
	var out strings.Builder
	w := tar.NewWriter(&out)
	file := func(h tar.Header, b []byte) {
		h.Size = int64(len(b))
		must(t, w.WriteHeader(&h))
		_, err := w.Write(b)
		must(t, err)
	}
	file(tar.Header{Name: "bin/busybox", Mode: 0o755}, b)
	for _, name := range []string{"sh", "sleep", "cat", "true", "id", "kill"} {
		file(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	file(tar.Header{Name: "inside", Mode: 0o644}, nil)
	file(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o777}, nil)
	must(t, w.Close())
	return []byte(out.String())
}

// Containers returns podman's list of containers, running or not.
func Containers(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("podman", "ps", "--all", "--format={{.Names}}").Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

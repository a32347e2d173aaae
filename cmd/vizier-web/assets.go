package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/cmd/vizier-web/page"
)

// static is the page. The Makefile adds the kernel for browsers, and Go's script that
// starts it. The program builds without them too; see built.
//
//go:embed static
var static embed.FS

// assets are the files of the page, by name.
type assets map[string][]byte

// The files that the Makefile builds.
const (
	kernelFile = "kernel.wasm.gz"
	hostFile   = "wasm_exec.js"
)

// built returns the embedded files, or an error if those of the Makefile are
// missing.
func built() (assets, error) {
	entries, err := static.ReadDir("static")
	if err != nil {
		return nil, err
	}
	a := assets{}
	for _, e := range entries {
		if a[e.Name()], err = static.ReadFile("static/" + e.Name()); err != nil {
			return nil, err
		}
	}
	if a[kernelFile] == nil || a[hostFile] == nil {
		return nil, errors.New("this vizier-web was built without the kernel for browsers: build it with `make`")
	}
	return a, nil
}

// standalone returns the page as one file that contains the current state. It
// opens at the job that ref names, or at the overview for "".
func standalone(ctx context.Context, r *vizier.Repository, a assets, ref string) ([]byte, error) {
	at := ""
	if ref != "" {
		_, id, err := r.Scheduler.Job(ctx, ref)
		if err != nil {
			return nil, err
		}
		at = string(id)
	}
	state, err := newBook(r).State(ctx, 0)
	if err != nil {
		return nil, err
	}
	return a.whole(page.Text(state), at)
}

// whole returns the page with all of its assets inlined.
func (a assets) whole(state []byte, job string) ([]byte, error) {
	given, err := json.Marshal(map[string]string{"state": string(state), "job": job}) // json.Marshal escapes what would end a script
	if err != nil {
		return nil, err
	}
	text := string(a["index.html"])
	for _, part := range [][2]string{
		{`<link rel="stylesheet" href="style.css">`, "<style>" + string(a["style.css"]) + "</style>"},
		{`<script src="wasm_exec.js"></script>`, "<script>" + string(a[hostFile]) + "</script>"},
		{`<script type="module" src="app.js"></script>`, `<script type="application/json" id="given">` + string(given) + `</script>` + "\n" +
			`<script type="text/plain" id="kernel">` + base64.StdEncoding.EncodeToString(a[kernelFile]) + `</script>` + "\n" +
			`<script type="module">` + string(a["app.js"]) + "</script>"},
		{`<meta charset="utf-8">`, `<meta charset="utf-8">` + "\n" + `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'wasm-unsafe-eval' ` +
			sum(a[hostFile]) + " " + sum(a["app.js"]) + "; style-src " + sum(a["style.css"]) + `; img-src data:; base-uri 'none'; form-action 'none'">`},
	} {
		if strings.Count(text, part[0]) != 1 {
			return nil, fmt.Errorf("index.html has not one %s", part[0])
		}
		text = strings.Replace(text, part[0], part[1], 1)
	}
	return []byte(text), nil
}

// sum returns the hash of an inline text for the content security policy.
func sum(text []byte) string {
	s := sha256.Sum256(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
	return "'sha256-" + base64.StdEncoding.EncodeToString(s[:]) + "'"
}

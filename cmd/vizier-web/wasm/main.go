//go:build js && wasm

// Command wasm is the kernel in the page of vizier-web: a function of the page's own,
// vizierKernel(question, text), that returns {answer} or {error}.
package main

import (
	"errors"
	"syscall/js"

	"github.com/vizier-scheduler/vizier/cmd/vizier-web/page"
)

func main() {
	var now *page.Page
	js.Global().Set("vizierKernel", js.FuncOf(func(_ js.Value, args []js.Value) any {
		text, err := "", errors.New("no state was read")
		switch question := args[0].String(); {
		case question == "read":
			var read *page.Page
			if read, err = page.Read([]byte(args[1].String())); err == nil {
				now = read
			}
		case now != nil:
			text, err = now.Ask(question, []byte(args[1].String()))
		}
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		return map[string]any{"answer": text}
	}))
	select {}
}

//go:build js && wasm

// Command wasm is the kernel in the page of vizier-web. It defines a function
// in JavaScript, vizierKernel(question, text), that returns {answer} or
// {error}.
package main

import (
	"syscall/js"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/cmd/vizier-web/page"
)

func main() {
	now := &page.Page{}
	js.Global().Set("vizierKernel", js.FuncOf(func(_ js.Value, args []js.Value) any {
		text, err := "", error(nil)
		if question, given := args[0].String(), args[1].String(); question == "read" {
			err = now.Take([]byte(given))
		} else {
			text, err = now.Ask(question, []byte(given))
		}
		if err != nil {
			return map[string]any{"error": answer.Visible(err.Error(), "\n\t")}
		}
		return map[string]any{"answer": text}
	}))
	select {}
}

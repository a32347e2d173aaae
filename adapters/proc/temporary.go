package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// temporaryVariables name a directory for temporary files.
var temporaryVariables = []string{"TMPDIR", "TMP", "TEMP", "TEMPDIR"}

// temporaryGone is what ForgetTemporary last found.
var temporaryGone string

// ForgetTemporary removes TMPDIR and the like from the environment of this process if there is no such directory
// any more: that of a shell or a session often goes with it, before what was submitted there starts.
// The system's directory is used then, also by what this process starts. It returns that as a line for people; "": all is well.
func ForgetTemporary() string {
	var gone []string
	for _, name := range temporaryVariables {
		dir := os.Getenv(name)
		if st, err := os.Stat(dir); filepath.IsAbs(dir) && (os.IsNotExist(err) || err == nil && !st.IsDir()) {
			gone = append(gone, name+"="+dir)
			_ = os.Unsetenv(name) // it only fails for names that are not valid
		}
	}
	if len(gone) == 0 {
		return ""
	}
	temporaryGone = fmt.Sprintf("%s: there is no such directory any more, so temporary files are made in %s", strings.Join(gone, ", "), os.TempDir())
	return temporaryGone
}

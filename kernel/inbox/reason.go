package inbox

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Ended returns the text of the reason file beside a prompt whose run did not
// end well. how says how it ended.
func Ended(j *kernel.Job, how string) string {
	return fmt.Sprintf("job %s %s\nnext: vizier why %[1]s\nid: %[3]s", cmp.Or(j.Ref(), string(j.ID)), how, j.ID)
}

// EndedJob returns the job that the text of a reason file is about. ok is false
// if no run was made of the prompt.
func EndedJob(reason string) (kernel.JobID, bool) {
	_, id, ok := strings.Cut(reason, "\nid: ")
	if !ok { // written before jobs had numbers
		id, ok = strings.CutPrefix(reason, "job ")
		id, _, _ = strings.Cut(id, " is ")
	}
	id = strings.TrimSpace(id)
	return kernel.JobID(id), ok && kernel.ValidJobID(id)
}

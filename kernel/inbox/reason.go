package inbox

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Ended is what stands beside the prompt of j, whose run ended as how says, but not
// well.
func Ended(j *kernel.Job, how string) string {
	return fmt.Sprintf("job %s %s\nnext: vizier why %[1]s\nid: %[3]s", cmp.Or(j.Ref(), string(j.ID)), how, j.ID)
}

// EndedJob is the job whose end a reason beside a prompt tells. It is false for a
// prompt that no run was made of.
func EndedJob(reason string) (kernel.JobID, bool) {
	_, id, ok := strings.Cut(reason, "\nid: ")
	if !ok { // of before there were numbers
		id, ok = strings.CutPrefix(reason, "job ")
		id, _, _ = strings.Cut(id, " is ")
	}
	id = strings.TrimSpace(id)
	return kernel.JobID(id), ok && kernel.ValidJobID(id)
}

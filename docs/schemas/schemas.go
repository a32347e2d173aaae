// Package schemas holds the published schemas that the program itself needs.
package schemas

import "embed"

// Records are the JSON Schema of job.json, job_record.schema.json, and those it
// refers to.
//
//go:embed job_record.schema.json artifact.schema.json
var Records embed.FS

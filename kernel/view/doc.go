// Package view makes what people and programs read of a [kernel.Snapshot]:
// the job list, one job's fields, the schedule and the frames of its live
// screen.
//
// It is as pure as the kernel. It decides what stands in a cell, which rows are
// visible and in which order; widths, colours and streams are the front end's.
// The JSON documents are structs with tags, described by the schemas in
// docs/schemas: fields may be added to them, none is renamed.
package view

package fs

import (
	"errors"

	"github.com/vizier-scheduler/vizier/kernel"
)

func newGrown(g kernel.Grown) *grownRecord {
	if g == (kernel.Grown{}) {
		return nil
	}
	return (*grownRecord)(&g)
}

func (d *decoder) grown(g *grownRecord) kernel.Grown {
	if g == nil {
		return kernel.Grown{}
	}
	if g.Memory < 0 || g.Time < 0 {
		d.fail("grown", errors.New("a step is negative"))
	}
	return kernel.Grown(*g)
}

func newUsed(u kernel.Used) *usedRecord {
	if u == (kernel.Used{}) {
		return nil
	}
	return &usedRecord{duration(u.CPU), u.Memory}
}

func (d *decoder) used(u *usedRecord) kernel.Used {
	if u == nil {
		return kernel.Used{}
	}
	if u.Memory < 0 {
		d.fail("used.memory", errors.New("it is negative"))
	}
	return kernel.Used{CPU: d.duration("used.cpu", u.CPU), Memory: u.Memory}
}

package main

import (
	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/app"
)

type inboxWatchCmd struct {
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format; json prints one document per line, for each pass that did something."`
}

func (*inboxWatchCmd) Help() string {
	return "Runs until it is interrupted. You can kill it at any time, and several can run at once: each prompt runs once."
}

// Run watches.
func (x *inboxWatchCmd) Run(c *call) error {
	c.useResidentProgram()
	r, err := c.ownRepo()
	if err != nil {
		return err
	}
	box, err := r.Inbox(c.asker())
	if err != nil {
		return err
	}
	tree := r.InboxFiles()
	if _, err := tree.Scan(); err != nil {
		return inboxMissing(err)
	}
	c.ui.info("watching %s", tree.Inbox())
	notices := inbox.NewNotices(tree)
	defer notices.Close()
	told := map[string]bool{} // files left alone that were already reported
	box.Watch(c.ctx, notices, r.Config.Inbox.Poll, func(rep app.InboxReport, err error) {
		if err != nil {
			c.ui.warn("%v", inboxMissing(err))
			return
		}
		var left []app.Left
		now := map[string]bool{}
		for _, l := range rep.Left {
			key := l.Path + "\x00" + l.Reason
			if now[key] = true; !told[key] {
				left = append(left, l)
			}
		}
		if rep.Left = left; rep.Dirs != nil { // the pass read the files
			told = now
		}
		if len(rep.Taken)+len(rep.Failed)+len(rep.Renamed)+len(rep.Ended)+len(rep.Asked)+len(rep.Finished)+len(rep.Left) == 0 {
			return
		}
		doc := c.ui.inboxPass(rep)
		if x.Format == "json" {
			_ = c.ui.jsonLine(doc) // write errors are reported at the end
			return
		}
		c.ui.text(doc.lines())
	})
	return nil
}

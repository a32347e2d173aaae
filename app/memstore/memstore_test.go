package memstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/memstore"
	"github.com/vizier-scheduler/vizier/app/storetest"
	"github.com/vizier-scheduler/vizier/kernel"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store {
		v := memstore.NewVault()
		return storetest.Store{Process: func() storetest.Process { return v.Open() }}
	})
}

func TestOneTransactionAtATime(t *testing.T) {
	v := memstore.NewVault()
	one, err := v.Open().Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := v.Open().Begin(ctx); !errors.Is(err, app.ErrBusy) {
		t.Errorf("a second transaction: %v", err)
	}
	begun := make(chan error)
	go func() {
		two, err := v.Open().Begin(context.Background())
		if err == nil {
			err = two.Close()
		}
		begun <- err
	}()
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
}

// A job is numbered and its files are removed as the plan says, over the revision that it was made for.
func TestWhatIsRareIsKeptToo(t *testing.T) {
	store := memstore.NewVault().Open()
	thing := kernel.Artifact{Kind: kernel.Custom, Name: "thing", Ref: "x"}
	commit := func(actions ...kernel.Action) error {
		t.Helper()
		tx, err := store.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Close()
		return tx.Commit(kernel.NewPlan(actions...))
	}
	j := kernel.Job{ID: "a", Rev: 1, Spec: kernel.Spec{Produces: []kernel.Artifact{thing}}}
	if err := commit(kernel.Create(j), kernel.Publish{Attempt: kernel.AttemptID{Job: "a", N: 1}, Artifacts: j.Spec.Produces}); err != nil {
		t.Fatal(err)
	}
	if err := commit(kernel.NumberJob{Job: "a", If: 1, Number: 7, Part: "p"}); err != nil {
		t.Fatal(err)
	}
	if err := commit(kernel.NumberJob{Job: "a", If: 1, Number: 8}); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("over an earlier revision: %v", err)
	}
	rec, err := store.Read(t.Context(), kernel.Scope{All: true})
	if err != nil || rec.Last != 7 || len(rec.Jobs) != 1 || rec.Jobs[0].Number != 7 || rec.Jobs[0].Part != "p" {
		t.Errorf("%+v, %v", rec, err)
	}
	for _, want := range []int{1, 0} {
		f := kernel.NewFacts()
		store.Observe(t.Context(), kernel.Probes{Markers: j.Spec.Produces}, &f)
		if got := f.Markers[thing]; !got.Known || len(got.Value) != want {
			t.Errorf("markers %+v, want %d", got, want)
		}
		if err := commit(kernel.PurgeFiles{Job: "a", Produces: j.Spec.Produces}); err != nil {
			t.Fatal(err)
		}
	}
}

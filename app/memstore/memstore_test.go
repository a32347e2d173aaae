package memstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/memstore"
	"github.com/vizier-scheduler/vizier/app/storetest"
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

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/kernel"
)

// fakeFiles keeps the files of attempts in one directory.
type fakeFiles string

func (d fakeFiles) at(a kernel.AttemptID, end string) string {
	return filepath.Join(string(d), string(a.Job), "attempts", fmt.Sprint(a.N)+end)
}

func (d fakeFiles) LockFile(id kernel.JobID) string {
	return filepath.Join(string(d), string(id), "lock")
}
func (d fakeFiles) LogFile(id kernel.JobID, stream string) string {
	return filepath.Join(string(d), string(id), stream)
}
func (d fakeFiles) CheckpointDir(id kernel.JobID) string {
	return filepath.Join(string(d), string(id), "checkpoint")
}
func (d fakeFiles) ClaimFile(a kernel.AttemptID) string       { return d.at(a, ".json") }
func (d fakeFiles) HeartbeatFile(a kernel.AttemptID) string   { return d.at(a, ".heartbeat") }
func (d fakeFiles) ResultFile(a kernel.AttemptID) string      { return d.at(a, ".result") }
func (d fakeFiles) SubmissionsFile(a kernel.AttemptID) string { return d.at(a, ".submissions") }
func (d fakeFiles) ReportFile(a kernel.AttemptID) string      { return d.at(a, ".report") }
func (d fakeFiles) LostFile() string                          { return filepath.Join(string(d), "lost") }
func (d fakeFiles) OrderFile(a kernel.AttemptID) string       { return d.at(a, ".order.json") }
func (d fakeFiles) BeatFile(a kernel.AttemptID) string        { return d.at(a, ".beat") }
func (d fakeFiles) EndFile(a kernel.AttemptID) string         { return d.at(a, ".outcome.json") }
func (d fakeFiles) RunnerLog(a kernel.AttemptID) string       { return d.at(a, ".log") }
func (d fakeFiles) ClusterDir() string                        { return filepath.Join(string(d), "cluster") }

// fakeCluster is a cluster whose engine is this test.
type fakeCluster struct {
	*Cluster
	fake *fakeEngine
	t    *testing.T
}

// fakeEngine does as it is told, and counts the questions.
type fakeEngine struct {
	submitted func(Request) (string, error)
	queue     []Job
	listed    error
	cancelled []string

	submissions, lists atomic.Int32
}

func (e *fakeEngine) Accepts([]string) error { return nil }
func (e *fakeEngine) Missing() *Finding      { return nil }
func (e *fakeEngine) Mend(Question) string   { return "mend it" }
func (e *fakeEngine) Submit(_ context.Context, r Request) (string, error) {
	e.submissions.Add(1)
	return e.submitted(r)
}
func (e *fakeEngine) List(context.Context, string) ([]Job, error) {
	e.lists.Add(1)
	return e.queue, e.listed
}
func (e *fakeEngine) Cancel(_ context.Context, jobs []Job) error {
	for _, j := range jobs {
		e.cancelled = append(e.cancelled, j.ID)
	}
	return nil
}

// takes is an engine's answer to every submission.
func takes(id string) func(Request) (string, error) {
	return func(Request) (string, error) { return id, nil }
}

func refuses(kind RefusalKind, said string) func(Request) (string, error) {
	return func(Request) (string, error) { return "", &Refusal{kind, said} }
}

func newFakeCluster(t *testing.T, submitted func(Request) (string, error)) fakeCluster {
	t.Helper()
	dir := t.TempDir()
	f := fakeCluster{t: t, fake: &fakeEngine{submitted: submitted}}
	files := fakeFiles(filepath.Join(dir, "jobs"))
	f.Cluster = &Cluster{Name: "c", Engine: f.fake, Root: dir, Files: files, Local: &proc.Local{Exe: "/vizier", Root: dir, Files: files},
		Conclude: func(r kernel.Result) error {
			file, err := os.OpenFile(files.EndFile(r.Attempt), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return kernel.ErrStale
			}
			_, err = fmt.Fprintf(file, "%v %v", r.Class, r.Reason)
			return errors.Join(err, file.Close())
		}}
	return f
}

// tried is how often a job was submitted since this was last asked.
func (f fakeCluster) tried() int { return int(f.fake.submissions.Swap(0)) }

func attemptN(i int) kernel.AttemptID {
	return kernel.AttemptID{Job: kernel.JobID(fmt.Sprintf("%032x", i)), N: 1}
}

func (f fakeCluster) start(n int) (all []kernel.AttemptID) {
	f.t.Helper()
	for i := range n {
		a := attemptN(i + 1)
		if err := os.MkdirAll(filepath.Dir(f.Files.ClaimFile(a)), 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := f.Start(context.Background(), a); err != nil {
			f.t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func (f fakeCluster) deliver() time.Time {
	f.t.Helper()
	again, err := f.Deliver(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	return again
}

func (f fakeCluster) says(a kernel.AttemptID) kernel.Runner {
	f.t.Helper()
	fact := f.Alive(context.Background(), []kernel.AttemptID{a})[a]
	if !fact.Known {
		f.t.Fatalf("of %v it is not known what became: %s", a, fact.Err)
	}
	return fact.Value
}

// due makes what was put off due at once.
func (f fakeCluster) due(a kernel.AttemptID) {
	f.t.Helper()
	o, err := f.order(a)
	if err != nil {
		f.t.Fatal(err)
	}
	o.Next = time.Time{}
	if err := writeJSON(f.Files.OrderFile(a), o); err != nil {
		f.t.Fatal(err)
	}
}

// Starting, stopping, sweeping and looking ask the cluster nothing: the scheduler lock
// is held meanwhile.
func TestNothingIsAskedUnderTheLock(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	ctx, all := context.Background(), f.start(3)
	f.Alive(ctx, all)
	if err := errors.Join(f.Stop(ctx, all[1]), f.Sweep(ctx, all[2])); err != nil {
		t.Fatal(err)
	}
	f.Alive(ctx, all)
	if f.tried()+int(f.fake.lists.Load())+len(f.fake.cancelled) > 0 {
		t.Error("the cluster was asked")
	}
}

func TestDeliver(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	all := f.start(3)
	if !f.says(all[0]).Pending {
		t.Error("what is in the outbox does not count as pending")
	}
	f.deliver()
	if n := f.tried(); n != 3 {
		t.Errorf("%d submissions of 3", n)
	}
	for _, a := range all {
		if err := f.Start(context.Background(), a); err != nil {
			t.Error(err)
		}
	}
	if len(f.errands()) > 0 {
		t.Error("what is submitted is to be submitted again")
	}
	for i, a := range all {
		f.fake.queue = append(f.fake.queue, Job{ID: strconv.Itoa(i + 40), Name: f.jobName(a), State: Stuck, Reason: "PartitionConfig"})
	}
	for _, a := range all[1:] {
		if err := f.Stop(context.Background(), a); err != nil {
			t.Error(err)
		}
	}
	f.deliver()
	if !slices.Equal(f.fake.cancelled, []string{"41", "42"}) {
		t.Errorf("to take two out of the queue: %q", f.fake.cancelled)
	}
	if r := f.says(all[0]); !r.Pending || !r.Stuck || !strings.Contains(r.Remark, "PartitionConfig (its job is 40)") {
		t.Errorf("%+v", r)
	}
}

// A sender died between the submission and its note: the next one finds the batch job
// by its name.
func TestDeliverAdopts(t *testing.T) {
	f := newFakeCluster(t, takes("8"))
	a := f.start(1)[0]
	f.fake.queue = []Job{{ID: "7", Name: f.jobName(a), State: Running, Node: "n1"}}
	f.deliver()
	if o, err := f.order(a); f.tried() != 0 || err != nil || o.Job != "7" {
		t.Errorf("%+v, %v", o, err)
	}
}

// A refusal in words that nobody knows is taken for final after a few tries, in the
// cluster's words; meanwhile it says so. It costs no attempt.
func TestUnknownRefusals(t *testing.T) {
	f := newFakeCluster(t, refuses(Unclear, "The moon is full"))
	a := f.start(1)[0]
	for i := range tryAgain {
		if again := f.deliver(); again.IsZero() || time.Until(again) > tryAgain[i] {
			t.Fatalf("after %d tries it comes again %s", i+1, again)
		}
		want := fmt.Sprintf("cluster c refuses it: The moon is full (tried %d of 5 times)", i+1)
		if r := f.says(a); !r.Pending || r.Remark != want {
			t.Errorf("%+v, want %q", r, want)
		}
		if f.deliver(); f.tried() != 1 {
			t.Error("it was not left alone")
		}
		f.due(a)
	}
	f.deliver()
	b, _ := os.ReadFile(f.Files.EndFile(a))
	if r := f.says(a); r.Liveness != kernel.Dead || string(b) != "rejected cluster c refused it 5 times: The moon is full" || len(f.errands()) > 0 {
		t.Errorf("it ends as %q, %+v", b, r)
	}
}

// What is known never to pass is final at once.
func TestFinalRefusals(t *testing.T) {
	f := newFakeCluster(t, refuses(Never, "no such partition"))
	a := f.start(1)[0]
	f.deliver()
	b, _ := os.ReadFile(f.Files.EndFile(a))
	if string(b) != "rejected cluster c refuses it: no such partition" || f.tried() != 1 {
		t.Errorf("it ends as %q", b)
	}
}

// A cluster that takes no more is left alone for a while, for all jobs, and longer each
// time; no job fails of it.
func TestAFullCluster(t *testing.T) {
	f := newFakeCluster(t, refuses(Later, "too many"))
	all := f.start(5)
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		begin := time.Now()
		again := f.deliver()
		if f.tried() != 1 {
			t.Error("who is full was asked for each job")
		}
		if wait := again.Sub(begin); wait < pause || wait > pause+5*time.Second {
			t.Errorf("it is asked again after %s, want %s", wait, pause)
		}
		if r := f.says(all[4]); !r.Pending || !strings.HasPrefix(r.Remark, "cluster c takes no more jobs now: too many") {
			t.Errorf("%+v", r)
		}
		closed := f.closed()
		closed.Until = time.Now()
		if err := writeJSON(f.closedFile(), closed); err != nil {
			t.Fatal(err)
		}
	}
	f.fake.submitted = takes("9")
	if again := f.deliver(); !again.IsZero() || f.tried() != 5 || len(f.errands()) > 0 {
		t.Errorf("once there is room they go on at %s", again)
	}
}

// What the cluster cannot take now holds up no other job, and no job fails of it.
func TestOneThatCannotBeTakenNow(t *testing.T) {
	f := newFakeCluster(t, nil)
	f.fake.submitted = func(r Request) (string, error) {
		if strings.Contains(r.Name, string(attemptN(1).Job)) {
			return "", &Refusal{NotThis, "host b is away"}
		}
		return "7", nil
	}
	all := f.start(3)
	for range 2 * len(tryAgain) {
		if again := f.deliver(); again.IsZero() {
			t.Fatal("it is never tried again")
		}
		f.due(all[0])
	}
	if r := f.says(all[0]); !r.Pending || r.Remark != "cluster c cannot take it now: host b is away" {
		t.Errorf("%+v", r)
	}
	if left := f.errands(); len(left) != 1 || left[0].attempt != all[0] {
		t.Errorf("left: %v", left)
	}
}

// An unreachable controller ends nothing, and is asked no more for a while.
func TestAnUnreachableController(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	a := f.start(1)[0]
	f.fake.listed = errors.New("nobody is there")
	for range 3 {
		if again, err := f.Deliver(context.Background()); err == nil || again.IsZero() {
			t.Errorf("again at %s, %v", again, err)
		}
	}
	if r := f.says(a); int(f.fake.lists.Load()) != 1 || !r.Pending || !strings.Contains(r.Remark, "it cannot be asked: nobody is there") {
		t.Errorf("%+v", r)
	}
}

// Two senders do not submit the same.
func TestTwoSenders(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.start(10)
	ended := make(chan error)
	for range 4 {
		go func() { _, err := f.Deliver(context.Background()); ended <- err }()
	}
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := f.tried(); n != 10 {
		t.Errorf("%d submissions of 10", n)
	}
}

// A watch whose settings the user has changed leaves the outbox alone.
func TestAWatchWithOldSettingsSubmitsNothing(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.start(1)
	synctest.Test(t, func(t *testing.T) {
		var current atomic.Bool
		w := &Watch{c: f.Cluster, current: current.Load, send: make(chan struct{}, 1)}
		ctx, stop := context.WithCancel(t.Context())
		go w.deliver(ctx)
		w.Send()
		time.Sleep(time.Hour)
		if n := f.tried(); n > 0 {
			t.Errorf("%d submissions with old settings", n)
		}
		current.Store(true)
		time.Sleep(time.Hour)
		if n := f.tried(); n != 1 {
			t.Errorf("%d submissions of 1", n)
		}
		stop()
	})
}

// A site's limits are kept: so many submissions a second, so many batch jobs at once.
func TestLimitsOfASite(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.Settings.SubmitRate = 20
	f.start(5)
	begin := time.Now()
	f.deliver()
	if took := time.Since(begin); f.tried() != 5 || took < 4*time.Second/20 {
		t.Errorf("5 submissions took %s", took)
	}
	f = newFakeCluster(t, takes("7"))
	f.Settings.MaxSubmitted = 3
	all := f.start(5)
	running := Job{ID: "7", Name: f.ownPrefix() + "y", State: Running}
	f.fake.queue = []Job{{ID: "6", Name: f.ownPrefix() + "x", State: Succeeded}, running}
	if f.deliver(); f.tried() != 2 {
		t.Error("not what there is room for")
	}
	f.fake.queue = []Job{running, {ID: "8", Name: f.jobName(all[0]), State: Pending}, {ID: "9", Name: f.jobName(all[1]), State: Pending}}
	if f.deliver(); f.tried() != 0 {
		t.Error("more than it may have")
	}
	if r := f.says(all[4]); !r.Pending || r.Remark != "cluster c has 3 jobs, max_submitted of [executors.c] is 3" {
		t.Errorf("%+v", r)
	}
	f.fake.queue = nil
	if again := f.deliver(); f.tried() != 3 || !again.IsZero() {
		t.Errorf("once there is room: %s", again)
	}
}

// A sender is started for what this process left, and for what nobody looks at; what is put off
// calls none.
func TestNeedsSender(t *testing.T) {
	f := newFakeCluster(t, refuses(Later, "full"))
	if f.NeedsSender(time.Minute) {
		t.Error("for nothing")
	}
	f.start(1)
	if !f.NeedsSender(time.Minute) {
		t.Error("not for what was left")
	}
	f.deliver()
	if f.NeedsSender(time.Minute) {
		t.Error("for what another has just looked at")
	}
	long := time.Now().Add(-2 * time.Minute)
	if err := os.Chtimes(f.sendingFile(), long, long); err != nil {
		t.Fatal(err)
	}
	if !f.NeedsSender(time.Minute) {
		t.Error("not for what nobody looks at")
	}
}

// Whose pilots all run something that takes long gets another, one at a time.
func TestPilotsThatAreAllBusy(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.Settings.Pack, f.Asked = 2, func(kernel.JobID) ([]string, time.Duration, error) { return nil, 0, nil }
	f.start(4)
	pilots := func(state State) {
		f.fake.queue = nil
		for i := range 2 {
			f.fake.queue = append(f.fake.queue, Job{ID: fmt.Sprint(i), Name: fmt.Sprint(f.pilotPrefix(), i), State: state})
		}
	}
	looked := func(ago time.Duration) {
		f.Looks()
		f.age(f.lookFile(), ago)
		f.age(f.sentFile(), ago)
	}
	f.deliver()
	if n := f.tried(); n != 2 {
		t.Errorf("at first there are %d pilots", n)
	}
	pilots(Running)
	if again := time.Until(f.deliver()); f.tried() != 0 || again < allBusy/2 || again > allBusy {
		t.Errorf("a moment later it is seen to in %s", again)
	}
	pilots(Pending)
	looked(2 * allBusy)
	if f.deliver(); f.tried() != 0 {
		t.Error("there are more pilots than wanted while some wait")
	}
	pilots(Running)
	looked(allBusy / 2)
	if again := time.Until(f.deliver()); f.tried() != 0 || again > allBusy*2/3 {
		t.Errorf("while one has looked not long ago it is seen to in %s", again)
	}
	looked(2 * allBusy)
	for want := 1; want >= 0; want-- {
		if f.deliver(); f.tried() != want {
			t.Errorf("where all are busy there are not %d more", want)
		}
	}
}

// age sets the time of a file.
func (f fakeCluster) age(path string, ago time.Duration) {
	f.t.Helper()
	at := time.Now().Add(-ago)
	if err := os.Chtimes(path, at, at); err != nil {
		f.t.Fatal(err)
	}
}

// Pilots that end before they look for anything are submitted again a few times, later and
// later, and then what waits for them fails, in the cluster's words. One that looks is as good as new.
func TestPilotsThatEndAtOnce(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.Settings.Pack, f.Asked = 2, func(kernel.JobID) ([]string, time.Duration, error) { return nil, 0, nil }
	all := f.start(2)
	ended := func() {
		_, _, name := f.unheard()
		f.fake.queue = []Job{{ID: "7", Name: name, State: Failed, Word: "FAILED", Reason: "NonZeroExitCode"}}
	}
	again := func(after time.Duration) {
		t.Helper()
		ended()
		if left := time.Until(f.deliver()); f.tried() != 0 || left <= 0 || left > after {
			t.Errorf("it is seen to in %s, and not after %s", left, after)
		}
		if r := f.says(all[0]); !strings.Contains(r.Remark, "ended its pilots before they looked for anything to run (job 7: FAILED, NonZeroExitCode): see ") {
			t.Errorf("remark %q", r.Remark)
		}
		f.age(f.sentFile(), after+time.Second) // the clock of files may be some milliseconds behind
		if f.deliver(); f.tried() != 1 {
			t.Errorf("after %s no pilot is submitted", after)
		}
	}
	f.deliver()
	if f.tried() != 1 {
		t.Fatal("no pilot is submitted")
	}
	again(tryAgain[0])
	again(tryAgain[1])
	f.Looks()
	f.age(f.sentFile(), time.Second)
	ended()
	if f.deliver(); f.tried() != 1 {
		t.Error("after one that looked none is submitted at once")
	}
	f.age(f.lookFile(), time.Hour)
	for _, after := range tryAgain {
		again(after)
	}
	ended()
	f.deliver()
	if f.tried() != 0 {
		t.Error("pilots are submitted for ever")
	}
	for _, a := range all {
		if end, err := os.ReadFile(f.Files.EndFile(a)); err != nil || !strings.Contains(string(end), "(tried 5 times)") {
			t.Errorf("attempt %v: %q, %v", a, end, err)
		}
	}
}

// A pilot that cannot start is taken off the cluster once nothing waits for it; one that
// is going to start is left alone.
func TestPilotsThatNobodyWaitsFor(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.Settings.Pack, f.Asked = 2, func(kernel.JobID) ([]string, time.Duration, error) { return nil, 0, nil }
	a := f.start(1)[0]
	f.fake.queue = []Job{{ID: "7", Name: f.pilotPrefix() + "a", State: Stuck}, {ID: "8", Name: f.pilotPrefix() + "b", State: Pending}}
	f.deliver()
	if gone := f.fake.cancelled; len(gone) != 0 {
		t.Errorf("while one waits for them: %v", gone)
	}
	if err := f.record(a, refused("it was cancelled")); err != nil {
		t.Fatal(err)
	}
	f.deliver()
	if gone := f.fake.cancelled; !slices.Equal(gone, []string{"7"}) {
		t.Errorf("cancelled %v", gone)
	}
}

// An order that another process has changed is read again, and only those of attempts that
// are watched are kept.
func TestOrdersThatAreKept(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	all := f.start(200)
	f.Alive(context.Background(), all)
	if n := len(f.kept); n != len(all) {
		t.Errorf("%d are kept", n)
	}
	o, err := f.order(all[0])
	if err != nil {
		t.Fatal(err)
	}
	o.Said = "changed"
	if err := writeJSON(f.Files.OrderFile(all[0]), o); err != nil {
		t.Fatal(err)
	}
	if got, err := f.order(all[0]); err != nil || got != o {
		t.Errorf("what was changed is %+v, %v", got, err)
	}
	if err := os.Remove(f.Files.OrderFile(all[1])); err != nil {
		t.Fatal(err)
	}
	if got, err := f.order(all[1]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was removed is %+v, %v", got, err)
	}
	f.Alive(context.Background(), all[:1])
	if n := len(f.kept); n != 1 {
		t.Errorf("of one that is watched %d are kept", n)
	}
}

// However many attempts end, the cluster is asked once a second whether there is room.
func TestManyEndsAreOneQuestion(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.Settings.MaxSubmitted = 1
	f.fake.queue = []Job{{ID: "1", Name: f.ownPrefix() + "other-1", State: Running}}
	f.start(1)
	f.deliver() // and it waits for room
	before, begun := f.fake.lists.Load(), time.Now()
	w := &Watch{c: f.Cluster, current: func() bool { return true }, send: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() { w.deliver(ctx) })
	defer over.Wait() // it writes into the directory of the test
	defer stop()
	for range 200 {
		tell(w.room)
		time.Sleep(time.Millisecond)
	}
	for f.fake.lists.Load() == before {
		time.Sleep(time.Millisecond)
	}
	if n, most := f.fake.lists.Load()-before, int32(time.Since(begun)/bellEvery)+1; n > most {
		t.Errorf("it was asked %d times, at most %d were due", n, most)
	}
}

// A pilot adds itself to an order, and what was cut off as it did says nothing.
func TestAnOrderWithItsPilot(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	a := f.start(1)[0]
	was, err := f.order(a)
	if err != nil {
		t.Fatal(err)
	}
	path := f.Files.OrderFile(a)
	if err := addPilot(path, "p", "12"); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	taken := was
	taken.Pilot, taken.Job = "p", "12"
	if got, err := f.order(a); err != nil || got != taken {
		t.Errorf("with its pilot it is %+v, %v", got, err)
	}
	for cut := strings.IndexByte(string(whole), '\n'); cut < len(whole)-2; cut++ {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := f.order(a); err != nil || got != was {
			t.Errorf("cut off at %d it is %+v, %v", cut, got, err)
		}
	}
}

// A host that has the repository at another path knows its jobs by the names that they were given, and no job of
// another repository. While another host schedules whose locks it does not see, a free lock says nothing.
func TestAnotherHostLooks(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	a := f.start(1)[0]
	o, err := f.order(a)
	if err != nil {
		t.Fatal(err)
	}
	f.deliver()
	claim := fmt.Sprintf(`{"host":"n1","boot":"b","pid":1,"start":1,"began":%q}`, time.Now().UTC().Format(time.RFC3339Nano))
	if err := errors.Join(os.WriteFile(f.Files.ClaimFile(a), []byte(claim), 0o600), os.WriteFile(f.Files.BeatFile(a), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	far := fakeCluster{t: t, fake: f.fake, Cluster: &Cluster{Name: f.Name, Engine: f.Engine, Root: f.Root + "/mounted", Files: f.Files, Local: f.Local, Conclude: f.Conclude}}
	if far.jobName(a) == o.Name {
		t.Fatal("the name does not depend on the path, and this tests nothing")
	}
	elsewhere := attemptN(77)
	f.fake.queue = []Job{{ID: "7", Name: o.Name, State: Running, Node: "n1"}, {ID: "8", Name: far.jobName(elsewhere), State: Running}, {ID: "9", Name: "vizier-0123abcd-" + string(elsewhere.Job) + "-1", State: Running}}
	time.Sleep(2 * tick) // the cluster is asked after the runner was last heard of
	list, err := far.refresh(t.Context())
	if err != nil || len(list.jobs) != 2 || far.open(list) != 2 {
		t.Errorf("%v: of three jobs one is another repository's: %v", err, list.jobs)
	}
	if r := far.says(a); r.Liveness != kernel.Alive {
		t.Errorf("%+v", r)
	}
	if err := far.post(toCancel, a); err != nil {
		t.Fatal(err)
	}
	far.deliver()
	if len(f.fake.cancelled) > 0 {
		t.Error("another path, which may be that of a copy of the repository, took the job off the cluster")
	}
	f.fake.queue[0].State = Lost
	if _, err := far.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	blind := true
	far.Blind = func() bool { return blind }
	if r := far.says(a); r.Liveness != kernel.Alive || !strings.Contains(r.Remark, "its runner was heard of") {
		t.Errorf("%+v", r)
	}
	blind = false
	if r := far.says(a); r.Liveness != kernel.Dead {
		t.Errorf("the lock is free: %+v", r)
	}
}

// The processes of a repository that was removed do not make its directories anew.
func TestARemovedRepositoryStaysSo(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.start(1)
	if err := os.RemoveAll(f.Root); err != nil {
		t.Fatal(err)
	}
	if _, err := f.refresh(t.Context()); err == nil {
		t.Error("there is a place for the answer")
	}
	if _, err := os.Lstat(f.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the repository is there: %v", err)
	}
}

// What was put off before the clock was set back is not put off for as much longer; for a minute, the clocks of two hosts
// may differ.
func TestWhatWasPutOffBeforeTheClockWasSetBack(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	a := f.start(1)[0]
	o, err := f.order(a)
	if err != nil {
		t.Fatal(err)
	}
	longest := tryAgain[len(tryAgain)-1]
	for name, c := range map[string]struct {
		full, next time.Duration
		stays      bool
	}{
		"full":                  {mostPause, 0, true},
		"full, and set back":    {mostPause + 2*time.Minute, 0, false},
		"refused":               {0, longest, true},
		"refused, and set back": {0, longest + 2*time.Minute, false},
	} {
		now := time.Now()
		o.Next = time.Time{}
		if c.next > 0 {
			o.Next = now.Add(c.next)
		}
		err := errors.Join(writeJSON(f.Files.OrderFile(a), o), f.post(toSubmit, a), writeJSON(f.closedFile(), closure{now.Add(c.full), "too many", mostPause}))
		if err != nil {
			t.Fatal(err)
		}
		if said := f.says(a).Remark; strings.Contains(said, "takes no more") != (c.stays && c.full > 0) {
			t.Errorf("%s: %q", name, said)
		}
		if again := f.deliver(); again.IsZero() == c.stays || (f.tried() == 0) != c.stays {
			t.Errorf("%s: it is tried at %s", name, again)
		}
	}
}

// Pilots that end at once are submitted again later and later, and where all are busy there is another in time, whatever
// the clock was when one last looked, or when they were last submitted.
func TestPilotsWhoseTimesAreAhead(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.Settings.Pack, f.Asked = 2, func(kernel.JobID) ([]string, time.Duration, error) { return nil, 0, nil }
	f.start(2)
	f.Looks()
	f.age(f.lookFile(), -time.Hour)
	f.deliver()
	if again := time.Until(f.deliver()); f.tried() != 1 || again <= 0 || again > tryAgain[0] {
		t.Errorf("one ended before it looked, and the next is submitted in %s", again)
	}
	f.fake.queue = []Job{{ID: "7", Name: f.pilotPrefix() + "a", State: Running}}
	f.age(f.sentFile(), -time.Hour)
	if f.deliver(); f.tried() != 1 {
		t.Error("those that are all busy get no other")
	}
}

// What is known of an attempt does not count as known for longer because the clock was set back, nor does an answer of
// before that count as a new one.
func TestAnAttemptWhoseTimesAreAhead(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	all := f.start(3)
	cutOff, lost, forgotten := all[0], all[1], all[2]
	f.deliver()
	o, err := f.order(cutOff)
	if err != nil {
		t.Fatal(err)
	}
	o.Job = "" // who submitted it was killed
	claim := `{"host":"n1","boot":"b","pid":1,"start":1,"began":"2026-01-01T00:00:00Z"}`
	err = errors.Join(writeJSON(f.Files.OrderFile(cutOff), o), os.WriteFile(f.Files.ClaimFile(lost), []byte(claim), 0o600), os.WriteFile(f.Files.BeatFile(lost), nil, 0o600),
		writeJSON(f.listFile(), answer{Asked: time.Now().Add(time.Hour)}))
	if err != nil {
		t.Fatal(err)
	}
	f.age(f.Files.OrderFile(cutOff), -time.Hour)
	f.age(f.Files.BeatFile(lost), -time.Hour)
	for _, a := range all {
		if r := f.says(a); r.Liveness != kernel.Alive {
			t.Errorf("by the answer of before it is %+v", r)
		}
	}
	if at := f.modified(f.Files.OrderFile(cutOff)); at.IsZero() {
		t.Error("the order's time is ahead still")
	}
	f.age(f.Files.OrderFile(cutOff), submitting+time.Second)
	time.Sleep(2 * tick) // the cluster is asked after that
	if _, err := f.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for a, want := range map[kernel.AttemptID]kernel.Liveness{cutOff: kernel.NeverStarted, lost: kernel.Dead, forgotten: kernel.NeverStarted} {
		if r := f.says(a); r.Liveness != want {
			t.Errorf("of %v it is said %+v", a, r)
		}
	}
}

// A bell that rings is heard where the system does not tell of it, also if the clock was set back since it last rang.
func TestABellWhoseTimeGoesBack(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.Settings.Poll = time.Hour
	all := f.start(1)
	f.ring()
	w := f.NewWatch(t.Context(), func() bool { return false })
	w.Watch(all)
	heard := func(within time.Duration) bool {
		select {
		case <-w.Ended():
			return true
		case <-time.After(within):
			return false
		}
	}
	for ahead := time.Hour; ; ahead += time.Hour { // the system tells of the file that it watches, and not of another in its place
		other := f.bell() + ".other"
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		f.age(other, -ahead)
		if err := os.Rename(other, f.bell()); err != nil {
			t.Fatal(err)
		}
		if heard(bellEvery) {
			break
		}
	}
	for heard(bellEvery / 5) { // one change may be told of twice
	}
	f.ring()
	if !heard(time.Minute) {
		t.Error("nobody hears it")
	}
}

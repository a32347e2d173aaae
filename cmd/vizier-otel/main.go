// Command vizier-otel runs hooks, as vizier does, and sends a span of each run,
// job and attempt to an OpenTelemetry collector. Vizier starts it if
// otel.endpoint is configured. It is a program of its own, so that others need
// not link the libraries for that.
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/kernel/trace"
)

func main() {
	code, ok := vizier.ServeHooks(os.Args[1:], os.Stderr, os.Environ(), new(exporter).export)
	if !ok {
		fmt.Fprintln(os.Stderr, "vizier-otel: vizier starts this program if the configuration sets otel.endpoint")
		code = 2
	}
	os.Exit(code)
}

// The time-out of one request, and how long a request is repeated if the
// collector asks for that. Hooks are delayed by both.
const (
	requestTimeout = 5 * time.Second
	retryTimeout   = 5 * time.Second
)

// exporter sends spans over OTLP. The zero value is ready to use. It keeps its
// connections open.
type exporter struct {
	mu       sync.Mutex
	latest   otlptrace.Client
	endpoint string // the endpoint of latest
}

// export implements vizier.SpanExporter.
func (x *exporter) export(ctx context.Context, endpoint, root string, spans []trace.Span) error {
	client, err := x.client(ctx, endpoint)
	if err != nil {
		return err
	}
	of := &otlp.ScopeSpans{Scope: &common.InstrumentationScope{Name: "github.com/vizier-scheduler/vizier"}}
	for _, s := range spans {
		of.Spans = append(of.Spans, message(s))
	}
	host, _ := os.Hostname()
	about := []trace.Attribute{{Key: "service.name", Value: "vizier"}, {Key: "vcs.repository.name", Value: filepath.Base(root)}, {Key: "vizier.root", Value: root}, {Key: "host.name", Value: host}}
	return client.UploadTraces(ctx, []*otlp.ResourceSpans{{Resource: &resource.Resource{Attributes: attributes(about)}, ScopeSpans: []*otlp.ScopeSpans{of}}})
}

func (x *exporter) client(ctx context.Context, endpoint string) (otlptrace.Client, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.latest != nil && x.endpoint == endpoint {
		return x.latest, nil
	}
	address, err := url.JoinPath(endpoint, "v1", "traces")
	if err != nil {
		return nil, err
	}
	c := otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(address), otlptracehttp.WithTimeout(requestTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: requestTimeout / 10, MaxInterval: requestTimeout / 2, MaxElapsedTime: retryTimeout}))
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	x.latest, x.endpoint = c, endpoint
	return c, nil
}

// message converts s to its protocol buffer message.
func message(s trace.Span) *otlp.Span {
	out := &otlp.Span{TraceId: s.Trace[:], SpanId: s.ID[:], Name: s.Name, Kind: otlp.Span_SPAN_KIND_INTERNAL, StartTimeUnixNano: uint64(s.Start.UnixNano()),
		EndTimeUnixNano: uint64(s.End.UnixNano()), Attributes: attributes(s.Attributes)}
	if s.Parent != (trace.SpanID{}) {
		out.ParentSpanId = s.Parent[:]
	}
	if s.Failed {
		out.Status = &otlp.Status{Code: otlp.Status_STATUS_CODE_ERROR, Message: s.Message}
	}
	return out
}

func attributes(all []trace.Attribute) []*common.KeyValue {
	out := make([]*common.KeyValue, 0, len(all))
	for _, a := range all {
		v := &common.AnyValue{}
		switch x := a.Value.(type) {
		case int64:
			v.Value = &common.AnyValue_IntValue{IntValue: x}
		case float64:
			v.Value = &common.AnyValue_DoubleValue{DoubleValue: x}
		default:
			v.Value = &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(fmt.Sprint(x), "\ufffd")} // else nothing is sent: a path may be any bytes
		}
		out = append(out, &common.KeyValue{Key: a.Key, Value: v})
	}
	return out
}

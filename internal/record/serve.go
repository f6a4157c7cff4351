package record

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	maxUnanswered = 1000             // largest number of unanswered lines of one connection
	connections   = 64               // largest number of connections at a time; further clients wait
	writeTimeout  = 30 * time.Second // limit on the time to send an answer
	lastAnswers   = 2 * time.Second  // limit on the time to send the last answers after ctx is done
)

// Read reads lines until the input ends or ctx is done. It calls answered for each line, in
// the order of the lines. It can be the intake of Run. When ctx is done, Read returns even if
// it is waiting for input.
func (r *Recorder) Read(ctx context.Context, from io.Reader, answered func(Answer)) error {
	err := r.converse(ctx, from, func(a Answer, _ bool) error {
		answered(a)
		return nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Listener is the part of net.Listener that Serve needs.
type Listener interface {
	Accept() (net.Conn, error)
	Close() error
}

// Serve reads the lines of all connections to ln until ctx is done, and sends an Answer
// in JSON for each line. Serve can be the intake of Run. It closes ln.
func (r *Recorder) Serve(ctx context.Context, ln Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() }) // makes Accept return
	defer func() {
		if stop() {
			_ = ln.Close()
		}
	}()
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, connections)
	for {
		room <- struct{}{}
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		all.Go(func() {
			defer func() { <-room }()
			r.serve(ctx, conn)
		})
	}
}

func (r *Recorder) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetReadDeadline(r.Now())
		_ = conn.SetWriteDeadline(r.Now().Add(lastAnswers))
	})
	defer stop()
	to := bufio.NewWriter(conn)
	enc := json.NewEncoder(to)
	_ = r.converse(ctx, conn, func(a Answer, last bool) error {
		if ctx.Err() == nil {
			_ = conn.SetWriteDeadline(r.Now().Add(writeTimeout))
		}
		err := enc.Encode(a)
		if err == nil && last {
			err = to.Flush()
		}
		return err
	})
}

// converse reads lines and calls send with the answer to each line, in order, until all lines
// are answered. The parameter last is true if no other answer is ready to be sent. converse
// stops reading if send returns an error or ctx is done.
func (r *Recorder) converse(ctx context.Context, from io.Reader, send func(a Answer, last bool) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	requests := make(chan request)
	answers := make(chan Answer, maxUnanswered)
	var readErr error // set before the channel of requests is closed
	go func() {
		defer close(requests)
		readErr = r.readRequests(ctx, from, requests, answers)
	}()
	var held []request // the request that was read last, if the queue is full
	open, ended, pending := true, ctx.Done(), 0
	for open || len(held) > 0 || pending > 0 {
		source, queue, first := requests, chan<- request(nil), request{}
		if len(held) > 0 {
			queue, first = r.queue, held[0]
		}
		if !open || len(held) > 0 || pending == maxUnanswered {
			source = nil
		}
		select {
		case q, ok := <-source:
			if open = ok; ok {
				held = append(held, q)
			}
		case queue <- first:
			held = held[:0]
			pending++
		case a := <-answers:
			pending--
			if err := send(a, len(answers) == 0); err != nil {
				stop()
			}
		case <-ended:
			for i := range held {
				r.drop(&held[i])
			}
			open, ended, held = false, nil, nil
		}
	}
	if ended == nil {
		return ctx.Err()
	}
	return readErr
}

func (r *Recorder) readRequests(ctx context.Context, from io.Reader, to chan<- request, answers chan<- Answer) error {
	l := newLines(from)
	for {
		text, err := l.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return err
		}
		q := request{line: l.n, wrong: err, answers: answers}
		if err == nil {
			q.change, q.release, q.wrong = r.parse(ctx, text)
		}
		select {
		case to <- q:
		case <-ctx.Done():
			r.drop(&q)
			return ctx.Err()
		}
	}
}

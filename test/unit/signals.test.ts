import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { abortOnSignals, stopOnSignals } from '../../src/cli/signals.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

const never = () => new Promise<void>(() => undefined);

describe('a host that receives a stop signal', () => {
  it('exits with 0 within five seconds, even if stopping never ends', () => {
    const source = new EventEmitter();
    const codes: number[] = [];
    stopOnSignals(source, never, (code) => codes.push(code));
    source.emit('SIGTERM');
    expect(codes).toEqual([]);
    vi.advanceTimersByTime(5000);
    expect(codes).toEqual([0]);
  });

  it('exits with 130 at once on a second signal', () => {
    const source = new EventEmitter();
    const codes: number[] = [];
    stopOnSignals(source, never, (code) => codes.push(code));
    source.emit('SIGTERM');
    source.emit('SIGINT');
    expect(codes).toEqual([130]);
  });
});

describe('a command that is interrupted', () => {
  it('is aborted, and exits with 130 within five seconds if it does not end', () => {
    const source = new EventEmitter();
    const codes: number[] = [];
    const signal = abortOnSignals(source, (code) => codes.push(code));
    source.emit('SIGINT');
    expect(signal.aborted).toBe(true);
    expect(codes).toEqual([]);
    vi.advanceTimersByTime(5000);
    expect(codes).toEqual([130]);
  });
});

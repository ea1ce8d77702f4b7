import { monitorEventLoopDelay } from 'node:perf_hooks';
import { cpuUsage, memoryUsage } from 'node:process';
import type { Family } from './exposition.ts';

/** How often the loop is looked at, in milliseconds. */
const resolution = 20;

/** How the process is. */
export class ProcessMetrics {
  #lag: ReturnType<typeof monitorEventLoopDelay> | undefined;

  families(): Family[] {
    const { rss, heapUsed, external } = memoryUsage();
    const { user, system } = cpuUsage();
    const gauge = (name: string, help: string, value: number): Family => ({
      name,
      help,
      type: 'gauge',
      samples: [{ value }],
    });
    return [
      gauge('process_resident_memory_bytes', 'Memory of the process.', rss),
      gauge('lathe_heap_used_bytes', 'Memory of the JavaScript heap.', heapUsed),
      gauge('lathe_external_memory_bytes', 'Memory of buffers and the like beside that heap.', external),
      {
        name: 'process_cpu_seconds_total',
        help: 'Time on processors.',
        type: 'counter',
        samples: [{ value: (user + system) / 1e6 }],
      },
      this.#loop(),
    ];
  }

  /** Measured from the first time that somebody asks: a timer that nobody reads would still wake the process. */
  #loop(): Family {
    const family = {
      name: 'lathe_event_loop_lag_seconds',
      help: 'How late the event loop came to its timers since it was asked last.',
      type: 'gauge',
    } as const;
    if (!this.#lag) {
      this.#lag = monitorEventLoopDelay({ resolution });
      this.#lag.enable();
      return { ...family, samples: [] };
    }
    const lag = this.#lag;
    const samples = [50, 99, 100].map((percentile) => ({
      labels: { quantile: String(percentile / 100) },
      // The timer's own wait is in it.
      value: Math.max(0, lag.percentile(percentile) / 1e9 - resolution / 1000),
    }));
    lag.reset();
    return { ...family, samples };
  }
}

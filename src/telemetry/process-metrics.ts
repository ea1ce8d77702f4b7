import { monitorEventLoopDelay } from 'node:perf_hooks';
import { cpuUsage, memoryUsage } from 'node:process';
import type { MetricFamily } from './prometheus-text.ts';

/** Sampling interval of the event loop delay, in ms. */
const resolution = 20;

/** Metrics of the process: memory, CPU time and event loop lag. */
export class ProcessMetrics {
  #loopDelay: ReturnType<typeof monitorEventLoopDelay> | undefined;

  families(): MetricFamily[] {
    const { rss, heapUsed, external } = memoryUsage();
    const { user, system } = cpuUsage();
    const gauge = (name: string, help: string, value: number): MetricFamily => ({
      name,
      help,
      type: 'gauge',
      samples: [{ value }],
    });
    return [
      gauge('process_resident_memory_bytes', 'Resident memory of the process.', rss),
      gauge('lathe_heap_used_bytes', 'Used memory of the JavaScript heap.', heapUsed),
      gauge('lathe_external_memory_bytes', 'Memory of buffers and other objects outside the heap.', external),
      {
        name: 'process_cpu_seconds_total',
        help: 'User and system CPU time.',
        type: 'counter',
        samples: [{ value: (user + system) / 1e6 }],
      },
      this.#eventLoopFamily(),
    ];
  }

  /** Starts to measure at the first scrape, because an unread timer would still wake the process. */
  #eventLoopFamily(): MetricFamily {
    const family = {
      name: 'lathe_event_loop_lag_seconds',
      help: 'Event loop lag since the last scrape.',
      type: 'gauge',
    } as const;
    if (!this.#loopDelay) {
      this.#loopDelay = monitorEventLoopDelay({ resolution });
      this.#loopDelay.enable();
      return { ...family, samples: [] };
    }
    const loopDelay = this.#loopDelay;
    const samples = [50, 99, 100].map((percentile) => ({
      labels: { quantile: String(percentile / 100) },
      // The measured delay includes the sampling interval.
      value: Math.max(0, loopDelay.percentile(percentile) / 1e9 - resolution / 1000),
    }));
    loopDelay.reset();
    return { ...family, samples };
  }
}

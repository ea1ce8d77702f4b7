import type { Resident } from '../planes/resident.ts';
import type { ServedCounters } from '../planes/served-counters.ts';
import type { ChangeBus } from './change-bus.ts';

interface WatchOptions {
  readonly resident: Resident;
  readonly served: Pick<ServedCounters, 'completions'>;
  readonly bus: ChangeBus;
}

/** How often the models are looked at, in ms; nothing but memory is read. */
const stateMs = 250;
/** How often counters are announced while they change, in ms. */
const countersMs = 2000;
/** After the last change, for readers that compute rates over this time, in ms. */
const rateWindowMs = 12_000;

/**
 * Announces what the engine and the pool of models do by themselves: a model was loaded or unloaded, tokens were counted. It runs
 * only while somebody reads.
 */
export function watchResident({ resident, served, bus }: WatchOptions): void {
  const state = () =>
    JSON.stringify([
      resident.state.kind,
      resident.models.map((model) => [model.location, model.engine.model.id, resident.isUnloading(model)]),
    ]);
  const counters = () =>
    JSON.stringify([served.completions, resident.models.map(({ engine }) => engine.stats())]);
  bus.whileRead((signal) => {
    let lastState = state();
    let lastCounters = counters();
    let changedAtMs = performance.now();
    const stateTimer = setInterval(() => {
      const next = state();
      if (next === lastState) return;
      lastState = next;
      bus.announce('host');
      bus.announce('models');
      bus.announce('bindings');
      bus.announce('kernels');
    }, stateMs);
    const countersTimer = setInterval(() => {
      const next = counters();
      if (next !== lastCounters) {
        changedAtMs = performance.now();
        bus.announce('racks');
      }
      lastCounters = next;
      if (performance.now() - changedAtMs <= rateWindowMs) bus.announce('telemetry');
    }, countersMs);
    stateTimer.unref();
    countersTimer.unref();
    signal.addEventListener('abort', () => {
      clearInterval(stateTimer);
      clearInterval(countersTimer);
    });
  });
}

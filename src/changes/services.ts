import type { Lab } from '../lab/types.ts';
import type { ModelStore } from '../planes/model-store.ts';
import type { Recorder } from '../recorder/recorder.ts';
import { announcing } from './announcing.ts';
import type { ChangeBus } from './change-bus.ts';
import type { Topic } from './topics.ts';

/** Announces what is done with a lab. */
export function announceLab(lab: Lab, bus: ChangeBus): Lab {
  const tell =
    (...topics: Topic[]) =>
    () => {
      for (const topic of topics) bus.announce(topic);
    };
  const announced = announcing(lab, {
    register: ({ name }) => bus.announce('kernels', name),
    deleteKernel: (name) => bus.announce('kernels', name),
    // What runs is a state of kernels, too.
    bind: tell('bindings', 'kernels'),
    unbind: tell('bindings', 'kernels'),
    unbindSome: tell('bindings', 'kernels'),
    setParityMode: tell('parity'),
    runParity: tell('parity'),
    bench: tell('benches'),
    cancelBench: tell('benches'),
    saveConfig: (name) => bus.announce('configs', name),
    importConfig: tell('configs'),
    deleteConfig: (name) => bus.announce('configs', name),
  });
  // A bench is listed from its beginning.
  const bench: Lab['bench'] = (...request) => {
    bus.announce('benches');
    return announced.bench(...request);
  };
  return new Proxy(announced, {
    get: (target, name) => (name === 'bench' ? bench : (Reflect.get(target, name) as unknown)),
  });
}

/** Announces changes to the stored models, and the progress of downloads. */
export function announceModels(store: ModelStore, bus: ChangeBus): ModelStore {
  const announced = announcing(store, {
    remove: ({ name }) => bus.announce('models', name),
    copy: () => bus.announce('models'),
    create: (name) => bus.announce('models', name),
  });
  const pull: ModelStore['pull'] = async (reference, listener, signal) => {
    const onProgress: typeof listener.onProgress = (progress) => {
      bus.announce('pulls', reference);
      listener.onProgress(progress);
    };
    try {
      return await store.pull(reference, { ...listener, onProgress }, signal);
    } finally {
      bus.announce('pulls', reference);
      bus.announce('models');
    }
  };
  return new Proxy(announced, {
    get: (target, name) => (name === 'pull' ? pull : (Reflect.get(target, name) as unknown)),
  });
}

/** Announces changes to racks and to who may read and write them. */
export const announceRacks = (recorder: Recorder, bus: ChangeBus): Recorder =>
  announcing(recorder, {
    change: (id) => bus.announce('racks', id),
    purge: (id) => bus.announce('racks', id),
    grant: () => bus.announce('racks'),
    revokeGrant: () => bus.announce('racks'),
    revokeGrantsTo: () => bus.announce('racks'),
    mintToken: () => bus.announce('racks'),
    revokeToken: () => bus.announce('racks'),
    ingest: () => bus.announce('racks'),
  });

import type { LabReader } from '../../agent/tools/builtin/lab-reader.ts';
import type { Lab } from '../../lab/types.ts';
import type { Resident } from '../resident.ts';

/**
 * The lab for agents. While it registers, compares or measures for an agent, the resident model cannot be swapped.
 * @throws HttpError where there is no lab
 */
export function createPinnedLab(resident: Pick<Resident, 'requireLab' | 'pin'>): LabReader {
  const lab: Lab = resident.requireLab();
  const withPinnedModel = async <T>(signal: AbortSignal, action: () => Promise<T>): Promise<T> => {
    const finished = Promise.withResolvers<void>();
    resident.pin({ signal, finished: finished.promise });
    try {
      return await action();
    } finally {
      finished.resolve();
    }
  };
  return {
    graph: () => lab.graph(),
    parts: () => lab.parts(),
    ops: () => lab.ops(),
    stub: (op, options) => lab.stub(op, options),
    configNames: () => lab.configNames(),
    saveConfig: (name) => lab.saveConfig(name),
    bind: (request, signal) => withPinnedModel(signal, () => lab.bind(request, signal)),
    unbind: () => lab.unbind(),
    register: (kernel, signal) => withPinnedModel(signal, () => lab.register(kernel, signal)),
    runParity: (signal) => withPinnedModel(signal, () => lab.runParity(signal)),
    bench: (request, signal) => withPinnedModel(signal, () => lab.bench(request, signal)),
  };
}

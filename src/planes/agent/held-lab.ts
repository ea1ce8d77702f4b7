import type { LabReader } from '../../agent/tools/builtin/lab-reader.ts';
import type { Lab } from '../../lab/types.ts';
import type { Resident } from '../resident.ts';

/**
 * The lab for agents. While it registers, compares or measures for an agent, the resident model cannot be swapped.
 * @throws HttpError where there is no lab
 */
export function heldLab(resident: Pick<Resident, 'requireLab' | 'hold'>): LabReader {
  const lab: Lab = resident.requireLab();
  const held = async <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
    const over = Promise.withResolvers<void>();
    resident.hold({ signal, over: over.promise });
    try {
      return await work();
    } finally {
      over.resolve();
    }
  };
  return {
    graph: () => lab.graph(),
    parts: () => lab.parts(),
    ops: () => lab.ops(),
    stub: (op, target) => lab.stub(op, target),
    configNames: () => lab.configNames(),
    bind: (request) => lab.bind(request),
    unbind: () => lab.unbind(),
    register: (kernel, signal) => held(signal, () => lab.register(kernel, signal)),
    runParity: (signal) => held(signal, () => lab.runParity(signal)),
    bench: (request, signal) => held(signal, () => lab.bench(request, signal)),
  };
}

/** The process that times kernels: a kernel that hangs or crashes ends this process, and not the benchmark. */
import { openGateDevice } from '../../src/lab/gate/open-gate-device.ts';
import { measurePeaks } from '../../src/lab/bench/peaks.ts';
import { errorMessage } from '../../src/util/error-message.ts';
import type { GateDevice } from '../../src/lab/gate/references.ts';
import type { FromTimer, ToTimer } from './protocol.ts';
import { timeKernels } from './time-kernels.ts';

let opened: GateDevice | undefined;

async function answer(message: ToTimer): Promise<FromTimer> {
  if (message.type === 'open') {
    opened = await openGateDevice(message.adapter);
    const { gpu } = opened;
    return {
      type: 'opened',
      adapter: gpu.model,
      software: gpu.caps.software,
      peaks: await measurePeaks(gpu),
    };
  }
  if (!opened) throw new Error('no device is open');
  return { type: 'timed', ...(await timeKernels(opened, message)) };
}

process.on('message', (message: ToTimer) => {
  void answer(message)
    .catch((error: unknown): FromTimer => ({ type: 'failed', message: errorMessage(error) }))
    .then((reply) => process.send?.(reply));
});
process.on('disconnect', () => process.exit(0));

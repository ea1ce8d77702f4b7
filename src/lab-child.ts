/**
 * Entry point of the child process that runs candidate kernels on its own GPU device. The host forks it, and kills it
 * when a kernel hangs. The only argument is a part of the adapter's name.
 */
import process from 'node:process';
import { openGateDevice } from './lab/gate/open-gate-device.ts';
import type { FromChild, ProfileJob, ToChild } from './lab/gate/protocol.ts';
import { runGate } from './lab/gate/run-gate.ts';
import { labOps } from './lab/ops/index.ts';
import { profileKernel } from './lab/profile/profile-kernel.ts';
import { LabError } from './lab/types.ts';
import { errorMessage } from './util/error-message.ts';

// When the host exits, exit at once: a hanging shader would otherwise keep this process alive forever.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// Ctrl-C and a closing terminal signal the whole process group: ignore them here, because the host decides when to end.
for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});

const send = (message: FromChild, onSent: () => void = () => {}): void => {
  if (process.connected) process.send?.(message, undefined, undefined, onSent);
};

try {
  const gateDevice = await openGateDevice(process.argv[2]);
  void gateDevice.gpu.lost.then((reason) => {
    send({ type: 'lost', message: `the device was lost (${reason})` }, () => process.exit(1));
  });
  const profile = ({ registration, ...rest }: ProfileJob): FromChild => {
    try {
      const op = labOps.get(registration.op);
      if (!op) throw new Error(`unknown op '${registration.op}'`);
      return {
        type: 'profiled',
        profile: profileKernel({ op, registration, ...rest, wgsl: gateDevice.wgsl }),
      };
    } catch (error) {
      const isRefusal = error instanceof LabError && error.code === 'not_profiled';
      return { type: isRefusal ? 'not_profiled' : 'failed', message: errorMessage(error) };
    }
  };
  process.on('message', (message: ToChild) => {
    if (message.type === 'profile') {
      send(profile(message.job));
      return;
    }
    const { job } = message;
    runGate(gateDevice, job, {
      begin: (stage) => send({ type: 'begin', stage }),
      end: (stage) => send({ type: 'end', stage }),
      phase: (phase, load) => send({ type: 'phase', phase, load }),
    }).then(
      (report) => send({ type: 'report', report }),
      (error: unknown) => send({ type: 'failed', message: errorMessage(error) }),
    );
  });
  send({ type: 'ready', load: await gateDevice.calibration.measureLoad() });
} catch (error) {
  send({ type: 'unusable', message: errorMessage(error) }, () => process.exit(1));
}

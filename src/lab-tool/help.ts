import { toolHelp } from '../terminal/help.ts';
import { labTable } from './arguments.ts';

export const labHelpText = (version: string): string =>
  toolHelp(labTable, {
    head: [
      `lathe ${version}: the kernel lab, for authors of kernels`,
      '',
      'Usage: node dist/lab.js COMMAND [options]',
      '  It talks to a running host: node dist/host.js --gpu',
    ],
    exitCodes: [
      ['0', 'fine'],
      ['1', 'a kernel failed its gate, a config is not valid, or parity is lost'],
      ['2', 'wrong usage, or a file that cannot be read'],
      ['3', 'no host there, or it refused'],
    ],
  });

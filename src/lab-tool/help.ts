import { toolHelp } from '../terminal/help.ts';
import { labTable } from './arguments.ts';
import { commandOf } from '../terminal/program.ts';

export const labHelpText = (version: string): string =>
  toolHelp(labTable, {
    header: [
      `lathe ${version}: kernel lab, a tool for kernel authors`,
      '',
      `Usage: ${commandOf('lab')} COMMAND [options]`,
      `  Needs a running host: ${commandOf('host')} --gpu`,
    ],
    exitCodes: [
      ['0', 'success'],
      ['1', 'a kernel was rejected, a config is invalid, or parity failed'],
      ['2', 'invalid usage, or an unreadable file'],
      ['3', 'the host is unreachable or rejected the request'],
    ],
  });

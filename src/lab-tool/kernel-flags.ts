import { UsageError } from '../config/options.ts';
import { splitList } from '../terminal/arguments.ts';
import type { Flags } from './arguments.ts';
import {
  emptyHeader,
  type Header,
  kernelNameError,
  kernelNamePattern,
  readFeatures,
  readFormats,
  readOverride,
  readTunable,
} from '../lab/kernel-header.ts';

/** Kernel description from the command line. */
export interface KernelFlags extends Omit<Header, 'dispatch' | 'places' | 'faults'> {
  readonly dispatch: { readonly x?: string; readonly y?: string; readonly z?: string };
}

/** Reads the kernel flags. Throws `UsageError` with all errors. */
export function readKernelFlags(flags: Flags): KernelFlags {
  const header = emptyHeader();
  const errors: string[] = [];
  const take = (flag: string, values: readonly string[] | undefined, read: typeof readOverride) => {
    for (const value of values ?? []) {
      const fault = read(header, value);
      if (fault !== undefined) errors.push(`--${flag}: ${fault}`);
    }
  };
  take('override', flags.override, readOverride);
  take('tune', flags.tune, readTunable);
  take('requires', flags.requires, readFeatures);
  take('dtypes', flags.dtypes, readFormats);
  if (flags.name !== undefined && !kernelNamePattern.test(flags.name))
    errors.push(`--name: ${kernelNameError(flags.name)}`);
  if (errors.length > 0) throw new UsageError(errors);
  const { overrides, tunables, requires, dtypes } = header;
  const { op, name, 'entry-point': entry, 'dispatch-x': x, 'dispatch-y': y, 'dispatch-z': z } = flags;
  return {
    overrides,
    tunables,
    requires,
    dtypes,
    bind: splitList(flags.bind),
    dispatch: {
      ...(x === undefined ? {} : { x }),
      ...(y === undefined ? {} : { y }),
      ...(z === undefined ? {} : { z }),
    },
    ...(op === undefined ? {} : { op }),
    ...(name === undefined ? {} : { name }),
    ...(entry === undefined ? {} : { entry_point: entry }),
  };
}

/** Whether the command line has kernel flags. They do not apply to modules. */
export const describesKernel = (flags: KernelFlags): boolean =>
  flags.op !== undefined ||
  flags.name !== undefined ||
  flags.entry_point !== undefined ||
  [flags.dispatch, flags.overrides, flags.tunables, flags.requires, flags.dtypes].some(
    (part) => Object.keys(part).length > 0,
  );

/** Merges the directives of a file with the flags of the command line, which win. */
export function mergeFlags(header: Header, flags: KernelFlags): Header {
  const { dispatch, overrides, tunables, requires, dtypes, bind, ...single } = flags;
  const { x, ...rest } = { ...header.dispatch, ...dispatch };
  return {
    ...header,
    ...single,
    ...(x === undefined ? {} : { dispatch: { x, ...rest } }),
    overrides: { ...header.overrides, ...overrides },
    // A value of the command line is not tuned.
    tunables: {
      ...Object.fromEntries(Object.entries(header.tunables).filter(([name]) => !(name in overrides))),
      ...tunables,
    },
    requires: requires.length > 0 ? requires : header.requires,
    dtypes: dtypes.length > 0 ? dtypes : header.dtypes,
    bind: bind.length > 0 ? bind : header.bind,
  };
}

import type { SourceLocation } from '../wgsl/tokens.ts';

/** WGSL that the emulator does not support. The message names the construct. */
export class EmulationError extends Error {
  location: SourceLocation | undefined;

  constructor(construct: string, location?: SourceLocation) {
    super(`The emulator does not support ${construct}.`);
    this.name = 'EmulationError';
    this.location = location;
  }
}

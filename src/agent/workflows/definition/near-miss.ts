import { nearest } from '../../../words/nearest.ts';

/** Suffix for an error message that suggests a similar known name; empty when there is none. */
export function nearMiss(given: string, known: readonly string[]): string {
  const near = nearest(given, known);
  return near === undefined ? '' : `; did you mean '${near}'?`;
}

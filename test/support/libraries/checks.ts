import { writeTable } from '../compatibility/document.ts';
import type { Place, PlaceName } from './places.ts';
import { until } from '../until.ts';

/** What users of a client library rely on, in the order of the table. */
export const libraryFeatures = {
  buffered: 'answer in one piece',
  streamed: 'streamed answer',
  usage: 'token counts, buffered and streamed',
  tool: 'tool call, its result goes back, the model answers',
  toolStreamed: 'the same, streamed',
  parallel: 'two calls at once, and both results',
  schema: 'answer bound to a JSON schema',
  schemaCall: 'the same, through a tool that the model must call',
  handoff: 'handoff to another agent',
  stored: 'second turn after a stored response',
  embeddings: 'embeddings',
  unknown: "another model is refused, as the library's own error",
  badKey: 'a wrong key is refused likewise',
  abort: 'abort in the middle frees the model',
} as const;
export type LibraryFeature = keyof typeof libraryFeatures;

/** A client library on one of its wires. A feature that it does not have is absent. */
export interface Library {
  readonly name: string;
  readonly places: readonly PlaceName[];
  /** Features that it does not have at the gateway. */
  readonly hostOnly?: readonly LibraryFeature[];
  /** Why it cannot be tested on this machine. */
  readonly missing?: string | undefined;
  readonly checks: Readonly<Partial<Record<LibraryFeature, (place: Place) => Promise<void>>>>;
}

/** Where a library does something: a cell of the table. */
export function placesOf(
  { places, hostOnly = [], checks }: Library,
  feature: LibraryFeature,
): readonly PlaceName[] {
  if (!(feature in checks)) return [];
  return hostOnly.includes(feature) ? ['host'] : places;
}

/** The table of client libraries in docs/compatibility.md. */
export const libraryTable = (libraries: readonly Library[]): string =>
  writeTable([
    ['', ...libraries.map(({ name }) => name)],
    ...Object.entries(libraryFeatures).map(([feature, words]) => [
      words,
      ...libraries.map((library) => cells[placesOf(library, feature as LibraryFeature).length] ?? ''),
    ]),
  ]);
const cells = ['-', 'host', 'both'];

/** Begins the story, leaves it with `leave`, and waits until the model has stopped. */
export async function checkAbandoned(place: Place, leave: () => Promise<unknown>): Promise<void> {
  const before = place.abandoned();
  await leave();
  await until(() => place.abandoned() > before, 'the model stops after the client disconnects');
}

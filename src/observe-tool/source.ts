import type { Observe } from '../observe/open.ts';
import type { ObserveEnvelope } from '../observe/types.ts';

export type SurfaceList = ReturnType<Observe['surfaces']>;
export type SurfaceSchema = ReturnType<Observe['schema']>;

/** What was answered, and its JSON as it came. */
export interface Answered<Document> {
  readonly document: Document;
  readonly text: string;
}

/** Who answers: a host over HTTP, or the files of one that is not running. */
export interface Source {
  surfaces(): Promise<Answered<SurfaceList>>;
  schema(surface: string): Promise<Answered<SurfaceSchema>>;
  /** @param body as the HTTP routes take it */
  query(body: unknown): Promise<Answered<ObserveEnvelope>>;
  ask(question: string, body: unknown): Promise<Answered<ObserveEnvelope>>;
  close(): Promise<void>;
}

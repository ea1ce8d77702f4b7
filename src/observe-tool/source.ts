import type { Observe } from '../observe/observe.ts';
import type { ObserveEnvelope } from '../observe/types.ts';

export type SurfaceList = ReturnType<Observe['surfaces']>;
export type SurfaceSchema = ReturnType<Observe['schema']>;

/** A response, parsed and as the received JSON text. */
export interface SourceResponse<Document> {
  readonly document: Document;
  readonly text: string;
}

/** Source of responses: a host over HTTP, or the files of a host that is not running. */
export interface Source {
  surfaces(): Promise<SourceResponse<SurfaceList>>;
  schema(surface: string): Promise<SourceResponse<SurfaceSchema>>;
  /** @param body request body as in the HTTP API */
  query(body: unknown): Promise<SourceResponse<ObserveEnvelope>>;
  ask(question: string, body: unknown): Promise<SourceResponse<ObserveEnvelope>>;
  close(): Promise<void>;
}

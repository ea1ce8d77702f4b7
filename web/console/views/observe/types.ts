import type { components } from '../../../api/schema.d.ts';

export type Query = components['schemas']['ObserveQuery'];
export type Envelope = components['schemas']['ObserveEnvelope'];
export type Schema = components['schemas']['ObserveSchema'];
export type ResultColumn = Envelope['columns'][number];
export type SurfaceColumn = Schema['columns'][number];
type SurfaceListing = components['schemas']['ObserveSurfaces'];
export type Surface = SurfaceListing['surfaces'][number];

/**
 * JSON schema of a question's parameter, limited to the members that questions use; the OpenAPI document leaves it
 * open.
 */
export interface Parameter {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly string[];
}
export interface Question {
  readonly name: string;
  readonly description: string;
  readonly parameters: {
    readonly properties?: Readonly<Record<string, Parameter>>;
    readonly required?: readonly string[];
  };
}

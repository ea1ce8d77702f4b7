/** A further name of a model. */
export interface ModelAlias {
  readonly name: string;
  /** Name of a stored model, or `residentTarget`. */
  readonly target: string;
}

/** The target of an alias for the resident model, whichever it is. */
export const residentTarget = 'resident';

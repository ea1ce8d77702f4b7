export interface Facts {
  readonly platform: string;
  readonly root: boolean;
  /** Whether apt-get is installed. */
  readonly apt: boolean;
  readonly postgres: boolean;
  readonly bubblewrap: boolean;
  readonly chromium: boolean;
}

interface Install {
  readonly kind: 'install';
  readonly names: string;
  readonly packages: readonly string[];
}
export type Step =
  | { readonly kind: 'ready' }
  | Install
  | { readonly kind: 'without'; readonly message: string };

export function decide(facts: Facts): Step;
export function commandsOf(step: Install): string[];

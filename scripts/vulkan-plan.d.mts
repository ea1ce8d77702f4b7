/** What setup-vulkan found on the machine. */
export interface Facts {
  platform: string;
  /** The name of the adapter that Dawn gives; undefined when it gives none. */
  adapter: string | undefined;
  /** What Dawn wrote when it gave none. */
  dawn: string;
  /** Device files of GPUs. */
  gpus: readonly string[];
  /** libvulkan.so.1 is there. */
  loader: boolean;
  /** The manifest of Mesa's software driver is there. */
  lavapipe: boolean;
  /** Version of the package mesa-vulkan-drivers. */
  mesa: string | undefined;
  apt: boolean;
  system: { name: string; codename: string | undefined };
  /** The package sources of the machine. */
  targets: readonly { release: string; uri: string }[];
  /** Debian's archive keys lie where Debian puts them. */
  archiveKeys: boolean;
  /** VK_DRIVER_FILES or VK_ICD_FILENAMES. */
  driverFiles: string | undefined;
}

export interface InstallStep {
  kind: 'install';
  what: string;
  packages: readonly string[];
  /** The release to take them from, where it is not the machine's own. */
  release?: string;
  /** Set when that release must be added to the package sources first. */
  mirror?: string;
  signed?: boolean;
}

export type Step = { kind: 'ready'; note: string } | InstallStep | { kind: 'refuse'; message: string };

export function decide(facts: Facts): Step;
export function commandsOf(step: Step): string[];
export function undoOf(step: InstallStep): string | undefined;
export function alternativeTo(step: InstallStep): InstallStep | undefined;
export function explainApt(output: string): string;
export function parseOsRelease(text: string): Facts['system'];
export function parseTargets(text: string): { release: string; uri: string }[];

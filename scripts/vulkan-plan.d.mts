/** Facts about the machine. */
export interface Facts {
  platform: string;
  /** Name of Dawn's adapter; undefined if it finds none. */
  adapter: string | undefined;
  /** Output of Dawn if it found no adapter. */
  dawn: string;
  /** Device files of the GPUs. */
  gpus: readonly string[];
  /** Whether libvulkan.so.1 is installed. */
  loader: boolean;
  /** Whether the manifest of Mesa's software driver is installed. */
  lavapipe: boolean;
  /** Version of the package mesa-vulkan-drivers. */
  mesa: string | undefined;
  apt: boolean;
  system: { name: string; codename: string | undefined };
  /** The package sources of the machine. */
  targets: readonly { release: string; uri: string }[];
  /** Whether Debian's archive keys are in their usual place. */
  archiveKeys: boolean;
  /** Value of VK_DRIVER_FILES or VK_ICD_FILENAMES. */
  driverFiles: string | undefined;
}

export interface InstallStep {
  kind: 'install';
  what: string;
  packages: readonly string[];
  /** Release to install from, if it is not the machine's own. */
  release?: string;
  /** Mirror of that release, if it must be added to the package sources first. */
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

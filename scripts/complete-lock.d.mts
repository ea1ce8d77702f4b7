export function missingPackages(lock: {
  packages: Record<string, { optionalDependencies?: Record<string, string> }>;
}): Map<string, { version: string; dev: boolean }>;

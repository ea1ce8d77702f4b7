import { kernelDigest } from '../digest.ts';
import type {
  BenchEvidence,
  ConfigEnvelope,
  Fingerprint,
  KernelRegistration,
  KernelRegistrationReport,
  Machine,
} from '../types.ts';
import type { SigningKey } from '../../signing/ed25519.ts';
import { signEnvelope } from './signature.ts';

/** Contents of a config. */
export interface ConfigContents {
  /** Valid config name. */
  readonly name: string;
  /** The resident model; `digest` is `sha256:<hex>`. */
  readonly model: ConfigEnvelope['model'];
  readonly bindings: ConfigEnvelope['bindings'];
  /** Each kernel that `bindings` uses. */
  readonly kernels: readonly KernelRegistration[];
  /** Gate report of each kernel, by kernel name. */
  readonly evidence: Readonly<Record<string, KernelRegistrationReport>>;
  /** The last bench of exactly these bindings. */
  readonly bench?: BenchEvidence | undefined;
  readonly machine: Machine;
  readonly fingerprint: Fingerprint;
  readonly createdAt: Date;
}

/** Builds and signs the envelope. Save it as `canonicalJson`. */
export function buildEnvelope(contents: ConfigContents, key: SigningKey): ConfigEnvelope {
  const { name, model, bindings, kernels, evidence, bench, machine, fingerprint, createdAt } = contents;
  const unsigned: Omit<ConfigEnvelope, 'signature'> = {
    contract: 1,
    name,
    model: { digest: model.digest, architecture: model.architecture },
    bindings,
    kernels: kernels.map((kernel) => ({ ...kernel, digest: kernelDigest(kernel) })),
    evidence,
    ...(bench === undefined ? {} : { bench }),
    machine,
    fingerprint,
    created_at: createdAt.toISOString(),
  };
  // Reports can contain infinities, which JSON encodes as null. Sign the values that a reader will get.
  return signEnvelope(JSON.parse(JSON.stringify(unsigned)) as typeof unsigned, key);
}

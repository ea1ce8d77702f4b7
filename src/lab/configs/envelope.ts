import { kernelDigest } from '../digest.ts';
import type { ConfigEnvelope, Fingerprint, KernelRegistration, KernelRegistrationReport } from '../types.ts';
import type { SigningKey } from '../../signing/ed25519.ts';
import { signEnvelope } from './signature.ts';

/** What a config holds. */
export interface ConfigContents {
  /** A config name. */
  readonly name: string;
  /** Of the resident model; the digest is `sha256:<hex>`. */
  readonly model: ConfigEnvelope['model'];
  readonly bindings: ConfigEnvelope['bindings'];
  /** Every kernel that `bindings` names, once. */
  readonly kernels: readonly KernelRegistration[];
  /** By kernel: the report of its gate. */
  readonly evidence: Readonly<Record<string, KernelRegistrationReport>>;
  readonly fingerprint: Fingerprint;
  readonly createdAt: Date;
}

/** The contents as a signed envelope; `canonicalJson` of it is the text to save. */
export function buildEnvelope(contents: ConfigContents, key: SigningKey): ConfigEnvelope {
  const { name, model, bindings, kernels, evidence, fingerprint, createdAt } = contents;
  const unsigned: Omit<ConfigEnvelope, 'signature'> = {
    contract: 1,
    name,
    model: { digest: model.digest, architecture: model.architecture },
    bindings,
    kernels: kernels.map((kernel) => ({ ...kernel, digest: kernelDigest(kernel) })),
    evidence,
    fingerprint,
    created_at: createdAt.toISOString(),
  };
  // Reports may hold infinities, which JSON writes as null; what is signed is what a reader gets.
  return signEnvelope(JSON.parse(JSON.stringify(unsigned)) as typeof unsigned, key);
}

import type { BigEndianReader } from '../tls/big-endian-reader.ts';

/*
 * Key stores use this part of Java's object serialization (java.io.ObjectStreamConstants): objects with default fields, byte arrays,
 * strings and back references. Integers are big-endian.
 *
 *   stream:    u16 0xACED, u16 5, content
 *   content:   0x70 null | 0x71 u32 handle | 0x73 class, field values | 0x74 text | 0x75 class, u32 length, bytes
 *   class:     0x70 null | 0x71 u32 handle | 0x72 text name, u64 version, u8 flags, u16 number of fields, fields, 0x78, superclass
 *   field:     u8 type, text name; for the types `[` and `L` also the content of a string, the type's name
 *   values:    from the topmost superclass to the class itself: the value of each field
 *   text:      u16 length, UTF-8
 *
 * Classes, objects, arrays and strings receive consecutive handles in the order in which they appear, starting at 0x7E0000.
 */
const MAGIC = 0xaced0005;
const [NULL, REFERENCE, CLASS, OBJECT, STRING, ARRAY, END] = [0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x78];
const FIRST_HANDLE = 0x7e0000;
/** The flags for a class that does not customise its serialization. */
const SERIALIZABLE = 0x02;
const PRIMITIVE_BYTES: Readonly<Record<string, number>> = { B: 1, C: 2, D: 8, F: 4, I: 4, J: 8, S: 2, Z: 1 };
const MAXIMUM_DEPTH = 16;

export interface JavaObject {
  readonly className: string;
  readonly fields: ReadonlyMap<string, JavaValue>;
}

export type JavaValue = JavaObject | Buffer | string | null;

interface JavaClass {
  readonly name: string;
  readonly fields: readonly { readonly type: string; readonly name: string }[];
  readonly parent: JavaClass | null;
}

/**
 * Reads a serialized object without the values of its primitive fields.
 * @throws RangeError for a damaged stream, and for content that key stores never contain
 */
export function readJavaObject(from: BigEndianReader): JavaObject {
  if (from.u32() !== MAGIC) {
    throw new RangeError('it contains no serialized Java object');
  }
  const object = new ObjectReader(from).content(0);
  if (object === null || typeof object === 'string' || Buffer.isBuffer(object)) {
    throw new RangeError('a serialized Java value is not an object');
  }
  return object;
}

class ObjectReader {
  readonly #from: BigEndianReader;
  readonly #handles: (JavaClass | JavaValue)[] = [];

  constructor(from: BigEndianReader) {
    this.#from = from;
  }

  content(depth: number): JavaValue {
    if (depth > MAXIMUM_DEPTH) {
      throw new RangeError('a serialized Java object is nested too deeply');
    }
    const type = this.#from.u8();
    switch (type) {
      case NULL:
        return null;
      case REFERENCE: {
        const found = this.#referenced();
        if (found !== null && typeof found === 'object' && 'parent' in found) {
          throw new RangeError('a serialized Java value refers to a class');
        }
        return found;
      }
      case STRING: {
        const text = this.#from.text();
        this.#handles.push(text);
        return text;
      }
      case ARRAY:
        return this.#byteArray(depth);
      case OBJECT:
        return this.#object(depth);
      default:
        throw new RangeError(`a serialized Java object contains the unknown type ${type}`);
    }
  }

  #byteArray(depth: number): Buffer {
    if (this.#class(depth)?.name !== '[B') {
      throw new RangeError('a serialized Java array does not contain bytes');
    }
    const handle = this.#handles.push(null) - 1;
    const content = this.#from.bytes();
    this.#handles[handle] = content;
    return content;
  }

  #object(depth: number): JavaObject {
    const type = this.#class(depth);
    if (type === null) {
      throw new RangeError('a serialized Java object has no class');
    }
    const fields = new Map<string, JavaValue>();
    const object = { className: type.name, fields };
    this.#handles.push(object);
    const lineage: JavaClass[] = [];
    for (let each: JavaClass | null = type; each !== null; each = each.parent) {
      lineage.unshift(each);
    }
    for (const field of lineage.flatMap((each) => each.fields)) {
      const primitive = PRIMITIVE_BYTES[field.type];
      if (primitive === undefined) {
        fields.set(field.name, this.content(depth + 1));
      } else {
        this.#from.skip(primitive);
      }
    }
    return object;
  }

  #class(depth: number): JavaClass | null {
    if (depth > MAXIMUM_DEPTH) {
      throw new RangeError('a serialized Java class is nested too deeply');
    }
    const type = this.#from.u8();
    if (type === NULL) {
      return null;
    }
    if (type === REFERENCE) {
      const found = this.#referenced();
      if (found === null || typeof found !== 'object' || !('parent' in found)) {
        throw new RangeError('a serialized Java object refers to no class');
      }
      return found;
    }
    if (type !== CLASS) {
      throw new RangeError(`a serialized Java object has the unknown class type ${type}`);
    }
    const name = this.#from.text();
    this.#from.skip(8);
    const handle = this.#handles.push(null) - 1;
    if (this.#from.u8() !== SERIALIZABLE) {
      throw new RangeError(`the Java class ${name} writes its own format`);
    }
    const fields: { type: string; name: string }[] = [];
    for (let left = this.#from.u16(); left > 0; left -= 1) {
      const field = { type: String.fromCharCode(this.#from.u8()), name: this.#from.text() };
      if (!(field.type in PRIMITIVE_BYTES)) {
        this.content(depth + 1);
      }
      fields.push(field);
    }
    if (this.#from.u8() !== END) {
      throw new RangeError(`the Java class ${name} has annotations`);
    }
    const found: JavaClass = { name, fields, parent: this.#class(depth + 1) };
    this.#handles[handle] = found;
    return found;
  }

  #referenced(): JavaClass | JavaValue {
    const found = this.#handles[this.#from.u32() - FIRST_HANDLE];
    if (found === undefined) {
      throw new RangeError('a serialized Java object contains an unknown reference');
    }
    return found;
  }
}

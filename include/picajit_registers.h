/*
 * Registers that pj_gpu acts on, by the ids of command lists. Names are those of 3dbrew without the
 * prefix GPUREG_. A host forwards writes to them, and to those of the same kind beside them: the list
 * is at pj_gpu_write. For C and C++, like picajit.h, which this header does not need.
 */
#ifndef PICAJIT_REGISTERS_H
#define PICAJIT_REGISTERS_H

enum {
    PJ_SH_OUTMAP_TOTAL = 0x04F, /* number of `SH_OUTMAP` slots used, bits 2:0 */
    PJ_SH_OUTMAP_O0 = 0x050, /* the first of seven words, one per slot: the semantics of x, y,
                                z, w. Slot k is the k-th register in PJ_VSH_OUTMAP_MASK, or with
                                a geometry program in PJ_GSH_OUTMAP_MASK */
    PJ_ATTRIBBUFFERS_LOC = 0x200, /* the address that offsets of arrays and indices count from,
                                     shifted right by 3 */
    PJ_ATTRIBBUFFERS_FORMAT_LOW = 0x201, /* types of attributes 0-7, four bits each: component
                                            format in bits 1:0, components minus 1 in bits 3:2 */
    PJ_ATTRIBBUFFERS_FORMAT_HIGH = 0x202, /* types of attributes 8-11; bits 27:16: attributes
                                             without an array (one that an array names has
                                             it all the same); the others are only stored */
    PJ_ATTRIBBUFFER0_OFFSET = 0x203, /* the first of twelve groups of three: offset; components
                                        0-7 of a vertex, four bits each: an attribute, or 12-15
                                        for one to four words of padding; components 8-11,
                                        stride in bits 23:16, number of components in bits 31:28. Of
                                        several arrays with one attribute the last counts */
    PJ_INDEXBUFFER_CONFIG = 0x227, /* bits 27:0: offset. Bit 31: indices have 16 bits, not 8 */
    PJ_NUMVERTICES = 0x228, /* vertices or indices of a draw */
    PJ_GEOSTAGE_CONFIG = 0x229, /* bits 1:0 are 2 when the geometry unit is in use, 0 when not */
    PJ_VERTEX_OFFSET = 0x22A, /* the first vertex of a draw without indices */
    PJ_DRAWARRAYS = 0x22E, /* draws vertices in order */
    PJ_DRAWELEMENTS = 0x22F, /* draws vertices in the order of an index stream */
    PJ_FIXEDATTRIB_INDEX = 0x232, /* the attribute that PJ_FIXEDATTRIB_DATA0 writes, bits 3:0;
                                     15 selects immediate mode, and discards an incomplete vertex
                                     and an incomplete input of the geometry unit */
    PJ_FIXEDATTRIB_DATA0 = 0x233, /* the first of three registers that take the words of an
                                     attribute, in any order of the registers. In hexadecimal
                                     digits they are WWWWWWZZ ZZZZYYYY YYXXXXXX, of float24 */
    PJ_FIXEDATTRIB_DATA2 = 0x235, /* the last of the three */
    PJ_VSH_NUM_ATTR = 0x242, /* attributes of a vertex in immediate mode minus 1, bits 3:0 */
    PJ_VSH_COM_MODE = 0x244, /* bit 0: the fourth unit has a configuration of its own. While it
                               is 0, and no geometry program is in use, writes to uniforms, code,
                               descriptors and the output mask of the vertex units reach the
                               geometry unit too */
    PJ_START_DRAW_FUNC0 = 0x245, /* 0 while drawing, 1 while configuring; only stored */
    PJ_VSH_OUTMAP_TOTAL1 = 0x24A, /* vectors per vertex that reach the geometry unit minus 1,
                                     bits 3:0 */
    PJ_VSH_OUTMAP_TOTAL2 = 0x251, /* a copy of the same number; only stored */
    PJ_GSH_MISC0 = 0x252, /* mode of the geometry unit; PJ_GEOMETRY_POINT */
    PJ_GSH_MISC1 = 0x254, /* main vertices of a primitive of variable size minus 1, bits 4:0:
                             they pass on all their vectors, the others the first one only */
    PJ_PRIMITIVE_CONFIG = 0x25E, /* bits 9:8 are PJ_TOPOLOGY_LIST */
    PJ_RESTART_PRIMITIVE = 0x25F, /* discards an incomplete primitive */

    /* The geometry unit. */
    PJ_GSH_BOOLUNIFORM = 0x280, /* b0 to b15 */
    PJ_GSH_INTUNIFORM_I0 = 0x281, /* the first of four words, one per integer uniform: x, y, z,
                                     w in its bytes */
    PJ_GSH_INPUTBUFFER_CONFIG = 0x289, /* attributes minus 1, bits 3:0 */
    PJ_GSH_ENTRYPOINT = 0x28A, /* the entry point of the program */
    PJ_GSH_ATTRIBUTES_PERMUTATION_LOW = 0x28B, /* registers of attributes 0-7, one nibble each */
    PJ_GSH_ATTRIBUTES_PERMUTATION_HIGH = 0x28C, /* registers of attributes 8-15 */
    PJ_GSH_OUTMAP_MASK = 0x28D, /* mask of the output registers that leave the unit, bits 15:0 */
    PJ_GSH_CODETRANSFER_END = 0x28F, /* ends an upload of code; only stored: here words take
                                        effect as they arrive */
    PJ_GSH_FLOATUNIFORM_INDEX = 0x290, /* the next float uniform, bits 7:0; bit 31 selects words
                                          of f32 */
    PJ_GSH_FLOATUNIFORM_DATA0 = 0x291, /* the first of eight registers that take words of float
                                          uniforms, in any order of the registers. The words of
                                          f32 are w, z, y, x; those of float24 are in
                                          hexadecimal digits WWWWWWZZ ZZZZYYYY YYXXXXXX */
    PJ_GSH_CODETRANSFER_INDEX = 0x29B, /* the next code word, bits 11:0 */
    PJ_GSH_CODETRANSFER_DATA0 = 0x29C, /* the first of eight registers that take code words */
    PJ_GSH_OPDESCS_INDEX = 0x2A5, /* the next operand descriptor, bits 11:0 */
    PJ_GSH_OPDESCS_DATA0 = 0x2A6, /* the first of eight registers that take descriptors */

    /* The vertex units: the same, 0x30 higher. */
    PJ_VSH_BOOLUNIFORM = 0x2B0,
    PJ_VSH_INTUNIFORM_I0 = 0x2B1,
    PJ_VSH_INPUTBUFFER_CONFIG = 0x2B9,
    PJ_VSH_ENTRYPOINT = 0x2BA,
    PJ_VSH_ATTRIBUTES_PERMUTATION_LOW = 0x2BB,
    PJ_VSH_ATTRIBUTES_PERMUTATION_HIGH = 0x2BC,
    PJ_VSH_OUTMAP_MASK = 0x2BD,
    PJ_VSH_CODETRANSFER_END = 0x2BF,
    PJ_VSH_FLOATUNIFORM_INDEX = 0x2C0,
    PJ_VSH_FLOATUNIFORM_DATA0 = 0x2C1,
    PJ_VSH_CODETRANSFER_INDEX = 0x2CB,
    PJ_VSH_CODETRANSFER_DATA0 = 0x2CC,
    PJ_VSH_OPDESCS_INDEX = 0x2D5,
    PJ_VSH_OPDESCS_DATA0 = 0x2D6
};

/*
 * Component formats of PJ_ATTRIBBUFFERS_FORMAT_...: integers become the floats that equal them. An
 * attribute lacks components up to w as (0, 0, 0, 1). Each component is aligned to its size, counted
 * from the start of its vertex.
 */
enum {
    PJ_FORMAT_S8 = 0,
    PJ_FORMAT_U8 = 1,
    PJ_FORMAT_S16 = 2,
    PJ_FORMAT_F32 = 3
};

/*
 * PJ_PRIMITIVE_CONFIG: three vertices a triangle; each vertex after two, which exchanges the first two
 * of every second triangle; each vertex with the first and the one before it.
 */
enum {
    PJ_TOPOLOGY_LIST = 0x000,
    PJ_TOPOLOGY_STRIP = 0x100,
    PJ_TOPOLOGY_FAN = 0x200,
    PJ_TOPOLOGY_GEOMETRY = 0x300 /* triangles of a geometry program; also a list */
};

enum { /* PJ_GSH_MISC0, bits 7:0 */
    PJ_GEOMETRY_POINT = 0,    /* the vectors of vertices fill the attributes */
    PJ_GEOMETRY_VARIABLE = 1, /* a vertex count in the index stream, then the vertices; PJ_GSH_MISC1.
                                 The count arrives in all components of c0, the vertices from c1 on */
    PJ_GEOMETRY_FIXED = 2     /* vertices minus 1 in bits 11:8, vectors of each minus 1 in bits 15:12, the
                                 first uniform in bits 23:16 */
};

enum { /* a byte of PJ_SH_OUTMAP_O0 and the six after it, x lowest: the position in a pj_semantics */
    PJ_SEMANTIC_POSITION_X = 0,
    PJ_SEMANTIC_QUATERNION_X = 4,
    PJ_SEMANTIC_COLOUR_R = 8,
    PJ_SEMANTIC_TEXTURE_0_U = 12,
    PJ_SEMANTIC_TEXTURE_1_U = 14,
    PJ_SEMANTIC_TEXTURE_0_W = 16,
    PJ_SEMANTIC_VIEW_X = 18,
    PJ_SEMANTIC_TEXTURE_2_U = 22,
    PJ_SEMANTIC_NONE = 31
};

#endif /* PICAJIT_REGISTERS_H */

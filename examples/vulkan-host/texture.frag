#version 450
// The host's fragment stage: one texture, times the colour. Built into fragment.inc by
//     glslangValidator -V texture.frag -x -o fragment.inc
layout(location = 1) in vec4 colour;
layout(location = 2) in vec4 coordinates;
layout(set = 0, binding = 1) uniform sampler2D image;
layout(location = 0) out vec4 pixel;

void main()
{
    pixel = colour * texture(image, coordinates.xy);
}
